#!/bin/sh
# PID 1 of the guest, started by its initrd: the kernel's file systems, version 2 control groups only,
# a state disk with project quota, and then the suites of the plan or a shell.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t ext4 -o noatime,prjquota /dev/vdc /tmp
chmod 1777 /tmp
rm -rf /tmp/lost+found
ln -sfn /proc/self/fd /dev/fd
hostname guest
ip link set lo up
exec python3 -B /opt/tests/guest/inside.py "$(sed -n 's/.*osb\.mode=\([a-z]*\).*/\1/p' /proc/cmdline)"

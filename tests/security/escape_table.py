"""The attacks of test_escapes.py, with what must be missing for them to work.

An attack is a name in tests/security/escapes/*.c and its arguments, separated by colons; {facts} are filled in by
the test: {secret} and {path} of a file of the host, {pid}, {address}, {fd}, {port}, {name}, {key} and {queue} of a
process of the host that has the same secret (escapes/victim.c), those of one in a neighbouring sandbox ({their_…}),
{minor} of a loop device, {image} and {socket} of the launcher.

`off` are the layers of src/launcher/weaken.h without which it works, or HOST: it is run on the host. `rare` says why
it may be that it works nowhere on some machine: it then counts as an attack without control. Without `rare` that is
a failure. `check` is asked after an attack that said PWNED whether it is true outside, too.
"""
from collections import namedtuple

Attack = namedtuple("Attack", "name words off proves rare check", defaults=(None, None))

HOST = "host"
FILTER = "seccomp"
ROOT = "userns,capabilities"
WHOLE = "seccomp,userns,capabilities"
FILES = "readonly,userns"
NO_MODULES = "a kernel without modules"
NO_X86 = "a processor of another kind"
NO_LOOPS = "a machine without loop devices"
NO_RESOURCE = "a machine whose root has no CAP_SYS_RESOURCE"


def table(off, proves, *rows):
    """Rows are a name, or (name, words), or a dictionary of what is different."""
    for row in rows:
        row = {"name": row} if isinstance(row, str) else row
        yield Attack(**{"words": row["name"], "off": off, "proves": proves, **row})


ATTACKS = [
    # Calls that anybody may make elsewhere.
    *table(FILTER, "the filter refuses parts of the kernel that nobody needs",
           "unshare_user", "unshare_user_and_mount", "clone_user", "clone3_user", "user_fault", "io_uring", "add_key",
           "request_key", "keyctl", "fanotify", "memfd_huge", "remap_pages", "move_pages",
           "migrate_pages", "personality_exec", "quota", "core_limit", "terminal_injection", "line_discipline",
           "vlan_module", "vsock_socket", "netfilter_socket", "uevent_socket",
           {"name": "multipath_socket", "rare": "a kernel without multipath TCP"},
           {"name": "list_mounts", "rare": "a kernel before 6.8"},
           {"name": "modify_ldt", "rare": NO_X86},
           {"name": "perf_event", "rare": "a kernel that has it for root only"},
           {"name": "memfd_secret", "rare": "a kernel that has it switched off"},
           {"name": "alg_socket", "rare": "a kernel without AF_ALG"}),
    *table(FILTER, "what the whole machine has only so much of is not to be had", "async_io"),
    *table(HOST, "what the whole machine has only so much of is shared out", "terminals"),
    *table("userns", "what the whole machine has only so much of is not to be had", "shared_huge_pages"),
    *table(FILTER, "there is no way around the filter",
           "own_filter", "own_supervisor", {"name": "own_tracer", "rare": NO_X86}, {"name": "int80", "rare": NO_X86},
           {"name": "x32", "rare": "a kernel without x32"}),

    # The machine.
    *table(WHOLE, "what belongs to the machine is out of reach",
           "hostname", "domainname", "clock_zone", "restart", "swap", "accounting", "hang_up", "kernel_log", "bpf",
           {"name": "kexec", "rare": "a kernel without kexec"},
           {"name": "load_module", "rare": NO_MODULES}, {"name": "unload_module", "rare": NO_MODULES},
           {"name": "io_ports", "rare": "a kernel without ioperm"},
           {"name": "io_level", "rare": "a kernel without iopl"},
           {"name": "dead_calls", "rare": "every kernel since 6.6"}),
    *table(ROOT, "capabilities inside are none outside", "clock_speed", "kernel_log_file"),
    *table(FILES, "kernel settings cannot be written",
           "core_pattern", "kernel_panic", "suid_dumpable", "irq_affinity", "kernel_memory_settings",
           "processor_settings",
           {"name": "sysrq", "rare": "a kernel without sysrq"}),
    *table(FILES, "a sandbox cannot lift its own limits", "group_memory", "group_processes", "group_make"),
    *table("masks", "kernel files that tell of the machine are empty", "interrupts", "keys"),
    *table("masks,userns", "kernel files that tell of the machine are empty", "timers"),
    *table("masks,userns,capabilities", "the kernel's memory cannot be read",
           {"name": "kernel_core", "rare": "a kernel without /proc/kcore"}),

    # Mounts and namespaces.
    *table(WHOLE, "what a sandbox is made of cannot be undone",
           "mount_proc", "mount_sysfs", "mount_bind", "remount", "unmask", "mount_attributes",
           "tree_clone", "tree_move", "new_file_system", "enter_namespace",
           "open_by_handle"),
    *table("seccomp,capabilities", "nobody makes places in which more is allowed",
           "mount_memory", "pivot", "unshare_mounts", "unshare_network", "unshare_time"),
    *table("userns", "namespaces are the host's", "namespace_owner"),
    *table(WHOLE + ",cgroupns", "no program of the host's root by a control group", "release_agent"),

    # Process 1.
    *table("execd-mode", "execd cannot be looked at, traced or replaced",
           "execd_root", "execd_environment", "execd_program", "execd_files", "execd_memory", "execd_vm_write",
           "execd_trace", "execd_socket", "execd_compare", "execd_oom_score"),
    *table("userns", "programs of the host cannot be overwritten (CVE-2019-5736)",
           "execd_overwrite", "host_program_overwrite"),

    # The host's files.
    *table("fds", "no descriptor of the host is left open (CVE-2024-21626)",
           {"name": "leaked_fd", "words": "leaked_fd:../../secret:{secret}"}),
    *table("cwd", "the working directory is inside (CVE-2024-21626)",
           {"name": "leaked_cwd", "words": "leaked_cwd:../../secret:{secret}"},
           {"name": "leaked_cwd_watch", "words": "leaked_cwd_watch:../../secret"}),
    *table("pivot,userns", "there is nothing above the root directory",
           {"name": "chroot_read", "words": "chroot_read:{path}:{secret}"},
           {"name": "chroot_write", "words": "chroot_write:{path}-written"},
           {"name": "chroot_link", "words": "chroot_link:{path}:{path}-linked"},
           {"name": "chroot_launcher", "words": "chroot_launcher:{socket}"}),
    *table("userns", "root inside is nobody outside",
           {"name": "setid_for_host", "check": "setid_outside"}),
    *table("overlay", "the table of mounts has no path of the host",
           {"name": "mountinfo_leak", "words": "mountinfo_leak:{image}"}),
    *table("overlay,userns", "what is written stays in the sandbox's own layer",
           {"name": "image_write", "check": "image_written"},
           {"name": "overlay_attribute", "check": "redirect_outside"}, "whiteout"),
    *table(ROOT, "attributes of the host's root cannot be set", "trusted_attribute", "immutable_file"),
    *table("userns", "no file counts for another's limit of the disk",
           {"name": "project_of_file", "rare": "a file system without project quota"}),
    *table("cgroupns", "where a sandbox is among the host's groups is not told", "cgroup_path_leak"),

    # Devices.
    *table(ROOT, "no devices but the harmless ones",
           {"name": "disk_in_dev", "words": "disk:/dev:{minor}:{secret}", "rare": NO_LOOPS},
           "device_fuse", "device_kmsg", "device_tun",
           {"name": "device_kvm", "rare": "a machine without KVM"},
           {"name": "device_mem", "rare": "a kernel without /dev/mem"}),
    *table("nodev," + ROOT, "device nodes in an image are dead",
           {"name": "disk_in_image", "words": "disk:/tmp:{minor}:{secret}", "rare": NO_LOOPS}, "device_loop_control"),

    # Processes and privileges.
    *table(HOST, "processes of the host cannot be named",
           {"name": "host_signal", "words": "host_signal:{pid}"},
           {"name": "host_descriptor", "words": "host_descriptor:{pid}:{fd}:{secret}"},
           {"name": "host_take_descriptor", "words": "host_take_descriptor:{pid}:{fd}:{secret}"},
           {"name": "host_memory", "words": "host_memory:{pid}:{address}:{secret}"},
           {"name": "host_trace", "words": "host_trace:{pid}"},
           {"name": "host_limit", "words": "host_limit:{pid}"},
           {"name": "host_priority", "words": "host_priority:{pid}"}),
    *table("proc," + ROOT, "/proc shows no processes of the host",
           {"name": "host_root", "words": "host_root:{pid}:{path}:{secret}"}),
    *table(HOST, "nobody gets before everybody else",
           {"name": "real_time", "rare": "a machine whose root may not"},
           {"name": "real_time_deadline", "rare": "a machine whose root may not"}),
    *table(ROOT, "nobody gets before everybody else", "nice_negative", "io_real_time",
           {"name": "oom_score", "rare": NO_RESOURCE}, {"name": "raise_limit", "rare": NO_RESOURCE}),
    *table("seccomp,no_new_privs", "no program gives privileges", "setid_program", "file_capability"),

    # The network and ipc.
    *table(ROOT, "the network cannot be listened to or changed",
           "raw_socket", "packet_mark", "foreign_address", "add_address"),
    *table(WHOLE, "the network cannot be listened to or changed", "packet_socket"),
    *table("net", "services of the host are out of reach",
           {"name": "host_loopback", "words": "loopback_service:{port}:{secret}"},
           {"name": "host_abstract_socket", "words": "abstract_socket:{name}:{secret}"},
           {"name": "host_socket_names", "words": "socket_names:{name}"}),
    *table("net", "services of other sandboxes are out of reach",
           {"name": "neighbour_loopback", "words": "loopback_service:{their_port}:{secret}"},
           {"name": "neighbour_abstract_socket", "words": "abstract_socket:{their_name}:{secret}"}),
    *table("ipc", "memory and messages of the host are out of reach",
           {"name": "host_shared_memory", "words": "shared_memory:{key}:{secret}"},
           {"name": "host_message_queue", "words": "message_queue:{queue}:{secret}"},
           {"name": "host_system_v_queue", "words": "system_v_queue:{key}"}),
    *table("ipc", "memory and messages of other sandboxes are out of reach",
           {"name": "neighbour_shared_memory", "words": "shared_memory:{their_key}:{secret}"},
           {"name": "neighbour_message_queue", "words": "message_queue:{their_queue}:{secret}"}),
    *table("seccomp,keyring", "keys of whoever started the launcher are out of reach",
           {"name": "session_key", "words": "session_key:{secret}"}),
]

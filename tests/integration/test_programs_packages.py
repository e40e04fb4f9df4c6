"""Packages installed from repositories that are inside the sandbox: pip's and apt's."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from programs import ProgramsCase  # noqa: E402

SETUP = """
from setuptools import setup
setup(name="osb-demo", version="1.5", py_modules=["osb_demo"], entry_points={"console_scripts": ["osb-demo=osb_demo:main"]})
"""

# A flat repository in /srv/repo: make_package NAME VERSION DEPENDS.
APT = r"""
make_package() {
    rm -rf tree && mkdir -p tree/DEBIAN tree/usr/bin tree/etc /srv/repo
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nDepends: %s\nMaintainer: nobody <nobody@localhost>\nDescription: %s\n' \
        "$1" "$2" "$3" "$1" >tree/DEBIAN/control
    printf '#!/bin/sh\necho "%s %s"\n' "$1" "$2" >tree/usr/bin/$1
    printf '#!/bin/sh\nset -e\necho "$1 $(id -u)" >/var/lib/%s.configured\n' "$1" >tree/DEBIAN/postinst
    echo "setting=1" >tree/etc/$1.conf
    echo "/etc/$1.conf" >tree/DEBIAN/conffiles
    chmod 755 tree/usr/bin/$1 tree/DEBIAN/postinst
    file=/srv/repo/$1_$2_all.deb
    dpkg-deb --root-owner-group --build tree $file >/dev/null
    { cat tree/DEBIAN/control; echo "Filename: ./${file##*/}"; echo "Size: $(stat -c %s $file)";
      echo "SHA256: $(sha256sum $file | cut -d' ' -f1)"; echo; } >>/srv/repo/Packages
}
"""


class Packages(ProgramsCase):
    def build_wheel(self):
        self.write("setup.py", SETUP)
        self.write("osb_demo.py", "def main():\n    print('demo', 6 * 7)")
        self.sh("/usr/bin/python3 -m pip wheel -q --no-index --no-deps --no-build-isolation -w wheels . 2>&1")
        self.assertEqual(self.sh("ls wheels"), "osb_demo-1.5-py3-none-any.whl")

    def test_pip_from_a_folder(self):
        self.build_wheel()
        told = self.sh("/usr/bin/python3 -m venv venv && venv/bin/pip install -q --no-index --find-links wheels osb-demo && "
                       "venv/bin/osb-demo && venv/bin/pip list --format=freeze | grep osb && "
                       "cd venv && bin/python -c 'import osb_demo; print(osb_demo.__file__)'")
        self.assertEqual(told, f"demo 42\nosb-demo==1.5\n{self.dir}/venv/lib/python3.11/site-packages/osb_demo.py")

    def test_pip_from_an_index(self):
        """Over HTTP on the loopback interface, into the system: Debian wants that said explicitly."""
        self.build_wheel()
        told = self.sh("mkdir -p index/osb-demo && cp wheels/*.whl index/osb-demo/\n"
                       "/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory index 8765 2>log & server=$!\n"
                       "until curl -so /dev/null http://127.0.0.1:8765/; do sleep 0.05; done\n"
                       "/usr/bin/python3 -m pip install -q --break-system-packages --root-user-action=ignore "
                       "--index-url http://127.0.0.1:8765/ osb-demo; status=$?; kill $server; [ $status = 0 ] && osb-demo && "
                       "command -v osb-demo && /usr/bin/python3 -m pip uninstall -q -y --break-system-packages "
                       "--root-user-action=ignore osb-demo && [ ! -e /usr/local/bin/osb-demo ] && echo gone")
        self.assertEqual(told, "demo 42\n/usr/local/bin/osb-demo\ngone")

    def test_apt(self):
        """Install with a dependency, upgrade with a changed setting kept, remove; nothing of the host's is touched."""
        self.sh(APT + "make_package osb-lib 1.0 bash\nmake_package osb-tool 1.0 'osb-lib (>= 1.0), libc6'\n"
                "echo 'deb [trusted=yes] file:///srv/repo ./' >/etc/apt/sources.list.d/local.list")
        told = self.sh("apt-get update 2>&1 && apt-get install -y osb-tool 2>&1")
        self.assertNotRegex(told, r"(?m)^[WE]: ")
        self.assertIn("0 upgraded, 2 newly installed, 0 to remove", told)
        self.assertIn("Setting up osb-tool (1.0)", told)
        self.assertEqual(self.sh("osb-tool; osb-lib; cat /var/lib/osb-tool.configured; dpkg -S /usr/bin/osb-tool; "
                                 "dpkg-query -W -f '${Status} ${Version}' osb-tool; dpkg --audit"),
                         "osb-tool 1.0\nosb-lib 1.0\nconfigure 0\nosb-tool: /usr/bin/osb-tool\ninstall ok installed 1.0")
        self.sh(APT + "make_package osb-tool 2.0 osb-lib\necho setting=2 >/etc/osb-tool.conf")
        told = self.sh("apt-get update 2>&1 && apt-get upgrade -y 2>&1")
        self.assertIn("1 upgraded, 0 newly installed", told)
        self.assertEqual(self.sh("osb-tool; cat /etc/osb-tool.conf"), "osb-tool 2.0\nsetting=2")
        told = self.sh("apt-get purge -y osb-lib 2>&1; ls /usr/bin/osb-* /etc/osb-lib.conf 2>/dev/null || true")
        self.assertIn("Removing osb-tool (2.0)", told)
        self.assertEqual(told.splitlines()[-1][:9], "Purging c", told)

    def test_dpkg_knows_the_host_packages(self):
        self.assertEqual(self.sh("dpkg -S /usr/bin/gcc; dpkg-query -W -f '${db:Status-Status}' libc6"),
                         "gcc: /usr/bin/gcc\ninstalled")


if __name__ == "__main__":
    unittest.main()

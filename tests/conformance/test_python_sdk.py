"""The published PyPI SDK against a real server, both of its clients: see client_python.py."""
import unittest
from pathlib import Path

import published

HERE = Path(__file__).parent
FILES = [*sorted(HERE.glob("surface_*.py")), HERE / "client_python.py"]


class Client(published.SdkCase):
    kind = None

    @classmethod
    def client(cls):
        return [published.python_with_sdk(), HERE / "client_python.py"], {"OSB_SDK_KIND": cls.kind}


class SyncSdk(Client, unittest.TestCase):
    kind = "sync"


class AsyncSdk(Client, unittest.TestCase):
    kind = "async"


published.add_tests(Client, r"^@item\nasync def (\w+)", FILES)

if __name__ == "__main__":
    unittest.main()

"""The published PyPI SDK against a real server: see client_python.py."""
import unittest
from pathlib import Path

import published


class PythonSdk(published.SdkCase, unittest.TestCase):
    @classmethod
    def client(cls):
        return [published.python_with_sdk(), Path(__file__).with_name("client_python.py")], {}


if __name__ == "__main__":
    unittest.main()

"""The published npm SDK against a real server: see client_js.mjs."""
import unittest
from pathlib import Path

import published

HERE = Path(__file__).parent
FILES = [*sorted(HERE.glob("surface_*.mjs")), HERE / "client_js.mjs"]


class JsSdk(published.SdkCase, unittest.TestCase):
    @classmethod
    def client(cls):
        node, sdk = published.js_sdk()
        return [node, HERE / "client_js.mjs"], {"OSB_JS_SDK": str(sdk)}


published.add_tests(JsSdk, r"^item\(async function (\w+)", FILES)

if __name__ == "__main__":
    unittest.main()

"""The published npm SDK against a real server: see client_js.mjs."""
import unittest
from pathlib import Path

import published


class JsSdk(published.SdkCase, unittest.TestCase):
    @classmethod
    def client(cls):
        node, sdk = published.js_sdk()
        return [node, Path(__file__).with_name("client_js.mjs")], {"OSB_JS_SDK": str(sdk)}


if __name__ == "__main__":
    unittest.main()

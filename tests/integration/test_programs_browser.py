"""Headless Chromium, the way agents run it: without its own sandbox, inside ours."""
import base64
import struct
import sys
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from programs import ProgramsCase  # noqa: E402

PAGE = """<!DOCTYPE html><html><head><style>
html, body { margin: 0; height: 100%; background: rgb(10, 200, 30) }
div { position: absolute; left: 100px; top: 0; width: 100px; height: 100px; background: rgb(250, 20, 240) }
</style></head><body><p id="sum"></p><div></div><script>
document.getElementById("sum").textContent = "sum " + Array.from({length: 101}, (_, i) => i).reduce((a, b) => a + b);
</script></body></html>"""

FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync")


def pixels(png):
    """Rows of (red, green, blue) of an RGB or RGBA picture, 8 bits each, not interlaced."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        chunk = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunk)
            assert (depth, interlace) == (8, 0) and colour in (2, 6)
        elif kind == b"IDAT":
            data += chunk
        at += length + 12
    size = 3 if colour == 2 else 4
    raw, rows, above = zlib.decompress(data), [], bytearray(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        row = bytearray(raw[start + 1:start + 1 + width * size])
        for i in range(len(row)):
            left, up = row[i - size] if i >= size else 0, above[i]
            corner = above[i - size] if i >= size else 0
            guess = left + up - corner
            paeth = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            row[i] = (row[i] + (0, left, up, (left + up) // 2, paeth)[raw[start]]) & 255
        rows.append([tuple(row[x * size:x * size + 3]) for x in range(width)])
        above = row
    return rows


class Browser(ProgramsCase):
    def chromium(self, arguments):
        """It says much about a missing bus on stderr."""
        return self.sh(f"timeout -k 5 200 chromium {FLAGS} --user-data-dir={self.dir}/profile {arguments} 2>errors || "
                       "{ tail -n 20 errors; exit 1; }")

    def test_runs_scripts(self):
        self.write("page.html", PAGE)
        self.assertIn('<p id="sum">sum 5050</p>', self.chromium(f"--dump-dom file://{self.dir}/page.html"))

    def test_renders_pictures(self):
        encoded = base64.b64encode(PAGE.encode()).decode()
        self.chromium(f"--hide-scrollbars --window-size=200,400 --screenshot={self.dir}/page.png data:text/html\\;base64,{encoded}")
        picture = pixels(base64.b64decode(self.sh("base64 -w0 page.png")))
        self.assertEqual((len(picture[0]), len(picture)), (200, 400))
        self.assertEqual(picture[50][150], (250, 20, 240))
        self.assertEqual(picture[150][50], (10, 200, 30))

    def test_reads_a_page_from_a_server_inside(self):
        self.write("page.html", PAGE)
        self.sh("/usr/bin/python3 -m http.server --bind 127.0.0.1 8766 >log 2>&1 & echo $! >pid\n"
                "until curl -so /dev/null http://127.0.0.1:8766/; do sleep 0.05; done")
        self.assertIn("sum 5050", self.chromium("--dump-dom http://127.0.0.1:8766/page.html"))
        self.assertIn("GET /page.html", self.sh("kill $(cat pid); cat log"))


if __name__ == "__main__":
    unittest.main()

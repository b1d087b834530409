#!/usr/bin/env python3
"""What the tool prints on a terminal: colours as NO_COLOR, CLICOLOR_FORCE and TERM ask for them, help as wide as the
terminal, messages in ASCII where the locale has nothing else.

    terminal_test.py TOOL
"""
import fcntl
import os
import pty
import struct
import sys
import tempfile
import termios
import unittest

TOOL = sys.argv.pop()
GRAPH = "graph(%x : Tensor):\n  %y : Tensor = aten::rleu(%x)\n  return (%z)\n"


def on_terminal(arguments, columns=80, **variables):
    """What a terminal of this width gets."""
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("NO_COLOR", "CLICOLOR_FORCE", "LC_ALL", "LC_CTYPE", "LANG")}
    environment.update({"TERM": "xterm", "LANG": "C.UTF-8", **variables})
    process, terminal = pty.fork()
    if process == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execve(TOOL, [TOOL, *arguments], environment)
    out = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux tells that nobody writes any more
            break
        if not piece:
            break
        out += piece
    os.waitpid(process, 0)
    os.close(terminal)
    return out.decode().replace("\r\n", "\n")


class Terminal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.graph = os.path.join(self.folder.name, "x.ir")
        with open(self.graph, "w", encoding="utf-8") as f:
            f.write(GRAPH)

    def tearDown(self):
        self.folder.cleanup()

    def test_colours(self):
        for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False),
                                    ({"NO_COLOR": "", "TERM": "xterm"}, True),
                                    ({"TERM": "dumb", "CLICOLOR_FORCE": "1"}, True)):
            with self.subTest(**variables):
                self.assertEqual("\x1b[" in on_terminal(["lint", self.graph], **variables), coloured)

    def test_help_fits(self):
        for columns in (40, 60, 80, 99):
            for topic in ("run", "verify", "compile", "bench", "limits", "cutting"):
                with self.subTest(columns=columns, topic=topic):
                    lines = on_terminal(["help", topic], columns).split("\n")
                    # What is indented in examples, and names of options, cannot be broken.
                    wide = [l for l in lines if len(l) > columns and not l.startswith("  ")]
                    self.assertEqual(wide, [])
        wide, narrow = (on_terminal(["help", "run"], columns).split() for columns in (100, 60))
        self.assertEqual(wide, narrow)

    def test_ascii_where_the_locale_is(self):
        arguments = ["partition", "--explain", "--no-lower", "--emit", "table"]
        graph = os.path.join(self.folder.name, "y.ir")
        with open(graph, "w", encoding="utf-8") as f:
            f.write("graph(%x : Float(2, 2)):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n")
        self.assertIn("→", on_terminal([*arguments, graph]))
        for name in ("C", "POSIX", "de_DE.ISO-8859-1"):
            text = on_terminal([*arguments, graph], LC_ALL=name)
            self.assertIn("->", text)
            self.assertTrue(text.isascii(), text)


if __name__ == "__main__":
    unittest.main()

"""The tool in a process that takes many calls (tests/support/tool_calls.cpp)."""
import os
import signal
import subprocess

# Calls that are not answered by then hang.
HANGS = 120


class Tool:
    """The tool in a process that takes many calls: all are written before the first answer is read, so that none waits."""

    def __init__(self, path, folder):
        self.path, self.requests = path, os.path.join(folder, "calls")

    def __call__(self, calls):
        """Of each call the exit code, standard output and error; the code of a signal if it ended."""
        answers = []
        while len(answers) < len(calls):
            answers += self.answered(calls[len(answers) :])
        return answers

    def answered(self, calls):
        """The answers until the process ends, which the last one tells."""
        with open(self.requests, "wb") as file:
            for args in calls:
                words = [word.encode() for word in args]
                file.write(b"%d\n" % len(words) + b"".join(b"%d\n" % len(word) + word for word in words))
        with open(self.requests, "rb") as file:
            process = subprocess.Popen([self.path], stdin=file, stdout=subprocess.PIPE)
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        answers = list(self.read(process.stdout))
        signal.alarm(0)
        code = process.wait()
        return answers if len(answers) == len(calls) else answers + [(code, "", "it ended")]

    @staticmethod
    def read(stream):
        while True:
            signal.alarm(HANGS)
            code, *sizes = stream.readline().split() or [None]
            parts = [stream.read(int(size)) for size in sizes]
            if code is None or [len(part) for part in parts] != [int(size) for size in sizes]:
                return
            yield int(code), *(part.decode(errors="replace") for part in parts)

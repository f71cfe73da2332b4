"""A program to be placed: it touches memory, starts threads and processes, and does what it is told.

    worker.py MEBIBYTES THREADS CHILDREN

Run by a bare interpreter (``python -I -S``), so that it starts fast where everything is slow.  Answers
``ready`` and then one line to each line of its input: ``touch N``, ``thread``, ``child``, ``spin N``,
``fill N``, ``open FILE`` (what the kernel says to it) or ``quit``.
"""

import _thread
import errno
import mmap
import os
import sys
import time

PAGE = 4096
kept = []


def touch(mebibytes: int) -> None:
    """Have pages of one's own."""
    area = mmap.mmap(-1, max(mebibytes, 1) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, mebibytes << 20, PAGE):
        area[at] = 1
    kept.append(area)


def work() -> None:
    """Run now and then, so that the scheduler has to say where."""
    while True:
        sum(range(2000))
        time.sleep(0.002)


def child(mebibytes: int) -> None:
    if os.fork():
        return
    touch(mebibytes)
    _thread.start_new_thread(work, ())
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.02)
    os._exit(0)


def opened(path: str) -> str:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def main(mebibytes: int, threads: int, children: int) -> None:
    touch(mebibytes)
    for _ in range(children):
        child(mebibytes)
    for _ in range(threads):
        _thread.start_new_thread(work, ())
    say("ready")
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "touch":
            touch(int(number))
        elif word == "open":
            say(opened(number))
            continue
        elif word == "thread":
            _thread.start_new_thread(work, ())
        elif word == "child":
            child(mebibytes)
        elif word == "spin":
            end = time.process_time() + int(number) / 1000
            while time.process_time() < end:
                pass
        elif word == "fill":
            for _ in range(int(number)):
                touch(1)
        else:
            return
        say("done")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))

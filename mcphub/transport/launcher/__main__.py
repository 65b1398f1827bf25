"""Owns the start of the launcher as a program of its own: `python -I -S __main__.py FD`.

It must not know what the launcher does. Its modules import each other relatively, so that the same files, compiled
once, are the package `launcher` here and a part of mcphub in the daemon; mcphub itself is never imported here.
"""

import sys

if __name__ == "__main__":
    # Behind everything else: no file beside the package can stand in for a module of Python.
    sys.path.append(__file__.rpartition("/launcher/")[0])
    run = __import__("launcher.run").run
    sys.path.pop()
    run.main(int(sys.argv[1]))

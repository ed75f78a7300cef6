"""`PYTHON reconciler/worker/__main__.py --entry package.module:Class --port N ...`: serve one class until SIGTERM."""

# Whatever interpreter the user names reads this file, and has to be able to say that it is too old: nothing here is
# newer than Python 2.7.
import atexit
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: The user's environment may well have a package called `worker`, or another `reconciler`.
_NAME = "_reconciler_worker"


def _run():  # type: () -> int
    """Load the package and serve. Returns the exit status."""
    if sys.version_info < (3, 9):  # noqa: UP036 - see above
        found = ".".join(map(str, sys.version_info[:3]))
        sys.stderr.write("worker: entry: %s is Python %s: 3.9 or newer is needed\n" % (sys.executable, found))  # noqa: UP031
        return 1
    # A script's own folder is searched first, and ours has names (`server`, `entry`) that others use as well.
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != _FOLDER]
    import importlib
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        _NAME, os.path.join(_FOLDER, "__init__.py"), submodule_search_locations=[_FOLDER]
    )
    assert spec is not None, "a file path always has a loader"
    assert spec.loader is not None, "a file path always has a loader"
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)
    return int(importlib.import_module(_NAME + ".main").main(sys.argv[1:]))


# Processes that the user's class starts may read this file again, under another name.
if __name__ == "__main__":
    status = _run()
    if status == 0:
        # All is answered and closed. Taking down the interpreter, with a framework in it, would take seconds more.
        try:
            atexit._run_exitfuncs()  # what libraries want done, processes that they have begun ended
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(0)
    sys.exit(status)

"""Runs the test functions of one file inside a fresh world. Started by tests/run.py; prints one line a test:
`ok NAME`, `not ok NAME` (with the reason on the lines before it) or `skip NAME: reason`."""
import importlib.util
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world as world_module  # noqa: E402


def main():
    path, pattern = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    prefix = os.path.relpath(path, str(world_module.TOP / "tests"))[:-3]
    failed, w = False, None
    try:
        w = module.make_world() if hasattr(module, "make_world") else world_module.World()
        for name, fn in [(n, f) for n, f in vars(module).items() if n.startswith("test_") and callable(f)]:
            if pattern and pattern not in name:
                continue
            began = time.monotonic()
            try:
                fn(w)
                print(f"ok {prefix}:{name} ({time.monotonic() - began:.1f} s)", flush=True)
            except world_module.Skip as e:
                print(f"skip {prefix}:{name}: {e}", flush=True)
            except BaseException:
                failed = True
                traceback.print_exc(file=sys.stdout)
                print(f"not ok {prefix}:{name}", flush=True)
    except world_module.Skip as e:
        print(f"skip {prefix}: {e}", flush=True)
    except BaseException:
        failed = True
        traceback.print_exc(file=sys.stdout)
        print(f"not ok {prefix}: could not be set up", flush=True)
    finally:
        for each in world_module.World.made or ([w] if w else []):
            each.close()
    sys.stdout.flush()
    os._exit(1 if failed else 0)


main()

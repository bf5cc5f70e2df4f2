"""Looks for a secret where it must not be: the resident memory of processes, and files. A search that finds nothing proves something only
beside one that finds: every test that uses this has a control."""
import array
import base64
import os
import stat

PAGE = os.sysconf("SC_PAGE_SIZE")
PRESENT = 0b11 << 62  # in memory or in swap (proc_pid_pagemap(5))
WINDOW = 1 << 20  # bytes of pagemap at a time: half a gigabyte of addresses
FILE_MOST = 64 << 20  # larger files are programs and databases of theirs


def forms(secret):
    """The secret as it stands, in base64 at each of three alignments, in hex."""
    raw = secret.encode()
    found = [raw, raw.hex().encode()]
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + raw)
        found.append(text[-(-shift * 8 // 6):len(text) - 4])  # what no neighbour changes
    return found


def resident(pid, start, end, pagemap):
    """(from, to) of the runs of pages that exist: a guest reserves terabytes and touches little."""
    at, run = start // PAGE, None
    last = end // PAGE
    while at < last:
        pagemap.seek(at * 8)
        data = pagemap.read(min(WINDOW, (last - at) * 8))
        if not data:
            break
        if data.count(0) == len(data):
            if run is not None:
                yield run * PAGE, at * PAGE
                run = None
            at += len(data) // 8
            continue
        for entry in array.array("Q", data):
            if entry & PRESENT and run is None:
                run = at
            elif not entry & PRESENT and run is not None:
                yield run * PAGE, at * PAGE
                run = None
            at += 1
    if run is not None:
        yield run * PAGE, last * PAGE


def found_in(data, wanted):
    return {f for f in wanted if f in data}  # one search a form: many times faster than one expression of them all


def in_memory(pid, *secrets):
    """Which forms stand in what this process may have written (not in programs mapped from files). A process that ends meanwhile has none."""
    wanted = [f for s in secrets for f in forms(s)]
    found = set()
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem, open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap:
            for line in maps.read().splitlines():
                span, mode, _, _, inode = line.split()[:5]
                if mode[0] != "r" or (mode[1] != "w" and inode != "0") or line.endswith(("[vvar]", "[vvar_vclock]", "[vsyscall]", "[vdso]")):
                    continue
                start, end = (int(x, 16) for x in span.split("-"))
                for a, z in resident(pid, start, end, pagemap):
                    tail = b""
                    while a < z:
                        try:
                            mem.seek(a)
                            data = mem.read(min(z - a, 16 << 20))
                        except OSError:
                            break
                        if not data:
                            break
                        found |= found_in(tail + data, wanted)
                        tail = data[-512:]
                        a += len(data)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass
    return found


def in_files(top, *secrets, skip=()):
    """Files below a folder, on its own file system, that hold a secret as it stands or in one of its other forms."""
    wanted = [f for s in secrets for f in forms(s)]
    found, device = [], os.stat(top).st_dev
    for folder, folders, names in os.walk(top):
        folders[:] = [f for f in folders if os.path.join(folder, f) not in skip and not os.path.islink(os.path.join(folder, f))
                      and os.lstat(os.path.join(folder, f)).st_dev == device]
        for name in names:
            path = os.path.join(folder, name)
            try:
                s = os.lstat(path)
                if not stat.S_ISREG(s.st_mode) or s.st_size > FILE_MOST:
                    continue
                with open(path, "rb") as f:
                    if found_in(f.read(), wanted):
                        found.append(path)
            except OSError:
                pass
    return found

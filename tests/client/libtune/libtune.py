# SPDX-License-Identifier: Apache-2.0
"""libtune by its C interface, as any language binds it."""
import ctypes
import os
import pathlib

OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, FAILED_PRECONDITION = 0, 3, 4, 5, 9
MATCHES = {1: "exact", 2: "bucketed", 3: "nearest", 4: "other_device", 5: "default"}
BASES = ("nothing", "measured", "neighbours", "sibling")
_TEXT, _POINTER, _SIZE = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("snapshot", _TEXT), ("address", _TEXT), ("deadline", ctypes.c_double),
                ("record_misses", ctypes.c_int)]


class Dim(ctypes.Structure):
    _fields_ = [("name", _TEXT), ("value", ctypes.c_int64)]


class Question(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("kernel", _TEXT), ("dtype", _TEXT), ("device", _TEXT),
                ("dims", ctypes.POINTER(Dim)), ("dim_count", _SIZE), ("require_exact", ctypes.c_int)]


class Param(ctypes.Structure):
    _fields_ = [("name", _TEXT), ("kind", ctypes.c_int), ("integer", ctypes.c_int64), ("number", ctypes.c_double),
                ("text", _TEXT)]


class Record(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int64), ("published_unix_ms", ctypes.c_int64), ("latency_ns", ctypes.c_double),
                ("latency_ns_low", ctypes.c_double), ("latency_ns_high", ctypes.c_double), ("confidence", _TEXT),
                ("evidence", _TEXT), ("artifact", _TEXT)]


class Expectation(ctypes.Structure):
    _fields_ = [("basis", ctypes.c_int), ("loss", ctypes.c_double), ("loss_low", ctypes.c_double),
                ("loss_high", ctypes.c_double)]


class Step(ctypes.Structure):
    _fields_ = [("entry", _TEXT), ("binary", _POINTER), ("binary_bytes", _SIZE), ("grid", ctypes.c_uint32 * 3),
                ("block", ctypes.c_uint32 * 3), ("cluster", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint32),
                ("cooperative", ctypes.c_int), ("programmatic_dependent_launch", ctypes.c_int), ("resident", ctypes.c_int),
                ("arg_count", _SIZE), ("zero_count", _SIZE)]


class Arg(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("name", _TEXT), ("dtype", _TEXT), ("role", _TEXT), ("count", ctypes.c_int64),
                ("value", _POINTER), ("value_bytes", _SIZE), ("buffer", _TEXT), ("rank", _SIZE),
                ("dims", ctypes.POINTER(ctypes.c_uint64)), ("strides_bytes", ctypes.POINTER(ctypes.c_uint64)),
                ("box", ctypes.POINTER(ctypes.c_uint64)), ("swizzle_bytes", ctypes.c_int64),
                ("l2_promotion_bytes", ctypes.c_int64)]

    def facts(self):
        """As the artifact's file has it; a scalar's value as bytes."""
        name, dtype = self.name.decode(), self.dtype.decode()
        if self.kind == 1:
            return {"kind": "buffer", "name": name, "dtype": dtype, "count": self.count, "role": self.role.decode()}
        if self.kind == 2:
            return {"kind": "scalar", "name": name, "dtype": dtype,
                    "value": ctypes.string_at(self.value, self.value_bytes)}
        return {"kind": "tensor_map", "name": name, "buffer": self.buffer.decode(), "dims": self.dims[:self.rank],
                "strides_bytes": self.strides_bytes[:self.rank - 1], "box": self.box[:self.rank],
                "swizzle_bytes": self.swizzle_bytes, "l2_promotion_bytes": self.l2_promotion_bytes}


class Symbol(ctypes.Structure):
    _fields_ = [("variable", _TEXT), ("binary", _POINTER), ("binary_bytes", _SIZE), ("buffer", Arg)]


def _load():
    path = os.environ.get("TUNE_LIBRARY") or pathlib.Path(os.environ["TUNE_BIN"]).parent / "lib/libtune.so"
    library = ctypes.CDLL(str(path))
    texts = ("client_digest", "client_source", "answer_match_name", "answer_reason", "answer_kernel", "answer_device",
             "answer_target", "answer_dtype", "answer_snapshot", "answer_source")
    for name in texts:
        function = getattr(library, f"tune_{name}")
        function.argtypes, function.restype = [_POINTER], _TEXT
    library.tune_error.restype = _TEXT
    for name in ("note", "kernel"):
        function = getattr(library, f"tune_client_{name}")
        function.argtypes, function.restype = [_POINTER, _SIZE], _TEXT
    library.tune_client_number.argtypes, library.tune_client_number.restype = [_POINTER], ctypes.c_int64
    library.tune_open.argtypes = [_POINTER, _POINTER]
    library.tune_best.argtypes = [_POINTER, _POINTER, _POINTER]
    library.tune_misses_wait.argtypes = [_POINTER, ctypes.c_double]
    library.tune_misses_note.argtypes, library.tune_misses_note.restype = [_POINTER, _SIZE], _TEXT
    library.tune_watch_open.argtypes = [_POINTER, ctypes.c_double, _POINTER]
    library.tune_watch_poll.argtypes, library.tune_watch_poll.restype = [_POINTER], _SIZE
    library.tune_watch_digest.argtypes, library.tune_watch_digest.restype = [_POINTER], _TEXT
    library.tune_watch_better.argtypes = [_POINTER, _SIZE, _POINTER, _POINTER]
    for name in ("look", "take"):
        getattr(library, f"tune_watch_{name}").argtypes = [_POINTER, _POINTER]
    library.tune_best_batch.argtypes = [_POINTER, _POINTER, _SIZE, _POINTER]
    library.tune_explain.argtypes = [_POINTER, _POINTER, _SIZE, _POINTER]
    library.tune_artifact.argtypes = [_POINTER, _TEXT, _POINTER, _POINTER]
    library.tune_program_open.argtypes = [_POINTER, _TEXT, _POINTER]
    for name in ("step", "symbol"):
        getattr(library, f"tune_program_{name}").argtypes = [_POINTER, _SIZE, _POINTER]
    for name in ("arg", "zero"):
        getattr(library, f"tune_program_{name}").argtypes = [_POINTER, _SIZE, _SIZE, _POINTER]
    for name in ("close", "answer_free", "free", "program_close", "watch_close"):
        getattr(library, f"tune_{name}").argtypes = [_POINTER]
    for name in ("param", "dim"):
        getattr(library, f"tune_answer_{name}").argtypes = [_POINTER, _SIZE, _POINTER]
    library.tune_answer_match.argtypes = [_POINTER]
    for name in ("record", "expectation"):
        getattr(library, f"tune_answer_{name}").argtypes = [_POINTER, _POINTER]
    library.tune_answer_integer.argtypes = [_POINTER, _TEXT, ctypes.c_int64]
    library.tune_answer_integer.restype = ctypes.c_int64
    return library


LIBRARY = _load()


class Failed(Exception):
    def __init__(self, status):
        super().__init__(LIBRARY.tune_error().decode())
        self.status = status


def _check(status):
    if status:
        raise Failed(status)


def _encode(text):
    return None if text is None else text.encode()


class Answer:
    """As tunectl.Answer has it."""

    def __init__(self, handle):
        record, param, dim = Record(), Param(), Dim()
        LIBRARY.tune_answer_record(handle, ctypes.byref(record))
        for name, _ in Record._fields_:
            value = getattr(record, name)
            setattr(self, "record" if name == "id" else name, value.decode() if isinstance(value, bytes) else value)
        expectation = Expectation()
        LIBRARY.tune_answer_expectation(handle, ctypes.byref(expectation))
        self.expectation = (BASES[expectation.basis], expectation.loss, expectation.loss_low, expectation.loss_high)
        for name in ("reason", "kernel", "device", "target", "dtype", "snapshot", "source"):
            setattr(self, name, getattr(LIBRARY, f"tune_answer_{name}")(handle).decode())
        self.match = LIBRARY.tune_answer_match_name(handle).decode()
        assert self.match == MATCHES[LIBRARY.tune_answer_match(handle)]
        self.config, self.macros, self.dims = {}, {}, {}
        while LIBRARY.tune_answer_param(handle, len(self.config), ctypes.byref(param)) == OK:
            text = param.text.decode()
            self.config[param.name.decode()] = [bool(param.integer), param.integer, param.number, text][param.kind - 1]
            self.macros[param.name.decode()] = text
        while LIBRARY.tune_answer_dim(handle, len(self.dims), ctypes.byref(dim)) == OK:
            self.dims[dim.name.decode()] = dim.value


class Client:
    def __init__(self, snapshot=None, address=None, deadline=0.0, record_misses=None, options_size=None):
        options = Options(options_size or ctypes.sizeof(Options), _encode(snapshot), _encode(address), deadline,
                          {None: 0, True: 1, False: -1}[record_misses])
        self._handle = ctypes.c_void_p()
        _check(LIBRARY.tune_open(ctypes.byref(options), ctypes.byref(self._handle)))
        self._read()

    @classmethod
    def of(cls, handle):
        client = cls.__new__(cls)
        client._handle = handle
        client._read()
        return client

    def _read(self):
        self.digest = LIBRARY.tune_client_digest(self._handle).decode()
        self.source = LIBRARY.tune_client_source(self._handle).decode()
        self.number = LIBRARY.tune_client_number(self._handle)
        self.notes = self._all(LIBRARY.tune_client_note)
        self.kernels = self._all(LIBRARY.tune_client_kernel)

    def _all(self, function):
        texts = []
        while (text := function(self._handle, len(texts))) is not None:
            texts.append(text.decode())
        return texts

    def close(self):
        LIBRARY.tune_close(self._handle)
        self._handle = ctypes.c_void_p()

    def __del__(self):
        LIBRARY.tune_close(self._handle)

    def wait_for_misses(self, seconds):
        status = LIBRARY.tune_misses_wait(self._handle, seconds)
        if status != DEADLINE_EXCEEDED:
            _check(status)
        return status == OK

    @property
    def miss_notes(self):
        return self._all(LIBRARY.tune_misses_note)

    @staticmethod
    def _question(kernel, dtype, device, require_exact, dims):
        array = (Dim * max(1, len(dims)))(*[Dim(name.encode(), value) for name, value in dims.items()])
        return Question(ctypes.sizeof(Question), kernel.encode(), _encode(dtype), _encode(device), array, len(dims),
                        require_exact)

    def best(self, kernel, *, dtype=None, device=None, require_exact=False, **dims):
        question = self._question(kernel, dtype, device, require_exact, dims)
        handle = ctypes.c_void_p()
        _check(LIBRARY.tune_best(self._handle, ctypes.byref(question), ctypes.byref(handle)))
        try:
            return Answer(handle)
        finally:
            LIBRARY.tune_answer_free(handle)

    def best_many(self, questions, count=None):
        asked = [{"dtype": None, "device": None, "require_exact": False, **one} for one in questions]
        array = (Question * len(asked))(*[
            self._question(*(one.pop(name) for name in ("kernel", "dtype", "device", "require_exact")), one)
            for one in asked])
        handles = (ctypes.c_void_p * len(asked))()
        _check(LIBRARY.tune_best_batch(self._handle, array, count or len(asked), handles))
        try:
            return [Answer(handle) for handle in handles]
        finally:
            for handle in handles:
                LIBRARY.tune_answer_free(handle)

    def explain(self, kernel, *, most=5, dtype=None, device=None, **dims):
        question = self._question(kernel, dtype, device, False, dims)
        text = ctypes.c_void_p()
        _check(LIBRARY.tune_explain(self._handle, ctypes.byref(question), most, ctypes.byref(text)))
        try:
            return ctypes.string_at(text).decode()
        finally:
            LIBRARY.tune_free(text)

    def artifact(self, digest):
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        _check(LIBRARY.tune_artifact(self._handle, digest.encode(), ctypes.byref(data), ctypes.byref(size)))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            LIBRARY.tune_free(data)

    def program(self, digest):
        """(steps, symbols), as the artifact's file has them, with each one's binary."""
        handle = ctypes.c_void_p()
        _check(LIBRARY.tune_program_open(self._handle, digest.encode(), ctypes.byref(handle)))
        try:
            steps, symbols, step, symbol = [], [], Step(), Symbol()
            while LIBRARY.tune_program_step(handle, len(steps), ctypes.byref(step)) == OK:
                args, index = {"arg": [], "zero": []}, len(steps)
                for name, count in (("arg", step.arg_count), ("zero", step.zero_count)):
                    for i in range(count):
                        arg = Arg()
                        _check(getattr(LIBRARY, f"tune_program_{name}")(handle, index, i, ctypes.byref(arg)))
                        args[name].append(arg.facts())
                    assert getattr(LIBRARY, f"tune_program_{name}")(handle, index, count, ctypes.byref(Arg())) == NOT_FOUND
                steps.append({"entry": step.entry.decode(), "grid": step.grid[:], "block": step.block[:],
                              "cluster": step.cluster[:], "shared_bytes": step.shared_bytes,
                              "cooperative": bool(step.cooperative),
                              "programmatic_dependent_launch": bool(step.programmatic_dependent_launch),
                              "resident": bool(step.resident),
                              "args": args["arg"], "zero": args["zero"],
                              "binary": ctypes.string_at(step.binary, step.binary_bytes)})
            while LIBRARY.tune_program_symbol(handle, len(symbols), ctypes.byref(symbol)) == OK:
                symbols.append({"variable": symbol.variable.decode(), "buffer": symbol.buffer.facts(),
                                "binary": ctypes.string_at(symbol.binary, symbol.binary_bytes)})
            return steps, symbols
        finally:
            LIBRARY.tune_program_close(handle)


class Watch:
    def __init__(self, client, every=0.0):
        self._handle = ctypes.c_void_p()
        _check(LIBRARY.tune_watch_open(client._handle, every, ctypes.byref(self._handle)))

    def __del__(self):
        LIBRARY.tune_watch_close(self._handle)

    def poll(self):
        return LIBRARY.tune_watch_poll(self._handle)

    def look(self):
        """[(before, after)]"""
        count = ctypes.c_size_t()
        _check(LIBRARY.tune_watch_look(self._handle, ctypes.byref(count)))
        better = self.better
        assert len(better) == count.value
        return better

    @property
    def better(self):
        pairs, before, after = [], ctypes.c_void_p(), ctypes.c_void_p()
        while LIBRARY.tune_watch_better(self._handle, len(pairs), ctypes.byref(before), ctypes.byref(after)) == OK:
            pairs.append((Answer(before), Answer(after)))
            LIBRARY.tune_answer_free(before)
            LIBRARY.tune_answer_free(after)
        return pairs

    @property
    def digest(self):
        return LIBRARY.tune_watch_digest(self._handle).decode()

    def take(self):
        """A client; None: nothing is better."""
        handle = ctypes.c_void_p()
        status = LIBRARY.tune_watch_take(self._handle, ctypes.byref(handle))
        if status != NOT_FOUND:
            _check(status)
        return Client.of(handle) if status == OK else None

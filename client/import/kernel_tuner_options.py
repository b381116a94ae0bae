# SPDX-License-Identifier: Apache-2.0
"""The third of a Kernel Tuner import that reads what the compiler is told: options, defines, and the macros that Kernel
Tuner defines itself."""
import re

from script_values import Function, Map, Scalar, Seq, plain
from spec_text import TO_WRITE

NVRTC_WORDS = {"--use_fast_math", "--ftz=true", "--ftz=false", "--prec-div=true", "--prec-div=false", "--prec-sqrt=true",
               "--prec-sqrt=false", "--fmad=true", "--fmad=false", "--std=c++17", "--std=c++20",
               "--extra-device-vectorization", "--restrict", "-default-device", "--generate-line-info", "-lineinfo",
               "--minimal"}
# Options that change no code of a kernel.
HARMLESS_OPTIONS = re.compile(r"-(v|w|g|O[0-3]|fPIC|fopenmp|Wall|Wextra|allow-unsupported-compiler)|--?(std=c\+\+1[14]|"
                              r"generate-line-info|source-in-ptx|resource-usage|ptxas-options=-v|Xptxas=-v|"
                              r"(gpu-)?arch(itecture)?=.*|gencode=?.*)")


class CompilerOptions:
    """Reads `compiler_options` and `defines`."""

    def read_options(self):
        self.nvrtc_options, self.option_defines = [], {}
        value = self.get("compiler_options") if not self.foreign else None  # they are of another compiler
        options = [plain(item) for item in value.items] if isinstance(value, Seq) else [plain(value)]
        waiting = "" if value is not None else None
        for option in options if value is not None else ():
            if not isinstance(option, str):
                self.leave("compiler_options: an option was not understood")
                continue
            for word in option.split():
                waiting = self.read_option(word, waiting)
        if waiting:
            self.leave(f"compiler_options: {waiting} has no value")

    def read_option(self, word, before):
        """Returns the option that waits for its value."""
        if before:
            word = before + ("" if before == "-D" else "=") + word
        word = re.sub(r"^--(define-macro|define-macro=)", "-D", word).replace("-D=", "-D", 1)
        if word in ("-D", "-Xptxas", "-std", "--std", "-maxrregcount", "--maxrregcount", "-arch", "--gpu-architecture",
                    "-gencode", "-Xcompiler", "--compiler-options"):
            return word
        if word.startswith("-D"):
            name, _, text = word[2:].partition("=")
            if re.fullmatch(r"[A-Za-z_]\w*", name):
                self.option_defines[name] = text if "=" in word else "1"
                return ""
        long = word if word.startswith("--") else "-" + word
        if word in NVRTC_WORDS or long in NVRTC_WORDS or re.fullmatch(r"--maxrregcount=\d+", long):
            self.nvrtc_options.append(word if word in NVRTC_WORDS else long)
        elif HARMLESS_OPTIONS.fullmatch(word) or word.startswith("-Xcompiler=") or word.startswith("--compiler-options="):
            self.notes.append(f"compiler_options: {word} was left out: it changes no code of a kernel here")
        else:
            self.leave(f"compiler_options: {word} is none of nvrtc_options, which docs/adding-a-kernel.md lists; do "
                       "without it, or write what it does into the source")
        return ""

    def read_defines(self):
        self.defines = {}
        value = self.get("defines")
        if value is not None and not isinstance(value, Map):
            self.leave("defines: it was not understood")
        given = {**self.option_defines, **(value.items if isinstance(value, Map) else {})}
        for name, item in given.items():
            if isinstance(item, Function):
                text = self.translated(item, f"define {name}")
            elif isinstance(item, str):
                text = item if re.fullmatch(r"-?\d+", item) else repr(item)
            elif isinstance(plain(item), (int, float)):
                num = item.num if isinstance(item, Scalar) else item
                text = self.known_size(num) if num.text else repr(num.value)
            else:
                self.leave(f"define {name}: its value was not understood", getattr(item, "line", 0))
                text = TO_WRITE
            if name in self.params:  # the param is a macro of that name already
                if text != name:
                    self.notes.append(f"define {name}: the param of that name is the macro")
                continue
            self.defines[name] = text if isinstance(text, str) else TO_WRITE
        if isinstance(value, Map):
            self.notes.append("defines: Kernel Tuner defines these alone; here the params are macros, too")
        self.define_what_kernel_tuner_does()

    def define_what_kernel_tuner_does(self):
        """Its own macros, where a source asks for them."""
        texts = "\n".join(self.files.values())
        own = {"kernel_tuner": "1"}
        for axis, name in zip(range(3), self.block_names()):
            own[name] = self.block[axis] if axis < len(self.block) else "1"
            own[f"grid_size_{'xyz'[axis]}"] = self.grid[axis] if axis < len(self.grid) else "1"
        for name, text in own.items():
            if name not in self.defines and name not in self.params and re.search(rf"\b{name}\b", texts):
                self.defines[name] = text

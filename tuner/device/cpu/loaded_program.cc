// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/loaded_program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "tuner/bundle.h"
#include "tuner/device/cpu/block_scheduler.h"
#include "tuner/device/cpu/prelude/abi.h"
#include "tuner/device/scalar_bytes.h"

namespace tune::cpu {
namespace {

// A flag of newer kernels, which otherwise refuse to run a memory file; older kernels refuse the
// flag.
constexpr unsigned kMemfdExec = 0x10;

constexpr int64_t kZeroGrain = 65536;

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// The runtime of the address sanitizer ends a process that loads it late, so look before loading.
absl::Status CheckSanitizer(const std::string& binary) {
  if (std::string_view(binary).find("__asan_init") == std::string_view::npos) {
    return absl::OkStatus();
  }
  if (dlsym(RTLD_DEFAULT, "__asan_init") != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the kernel was compiled with TUNE_CPU_SANITIZE=1, and the address sanitizer is not in this "
      "process: start the daemon (or tunectl) with LD_PRELOAD=$(c++ -print-file-name=libasan.so) "
      "and ASAN_OPTIONS=detect_leaks=0, or without TUNE_CPU_SANITIZE");
}

absl::Status WriteAll(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written =
        pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for the compiled kernel: ", strerror(errno)));
    }
    done += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

int MakeMemoryFile(unsigned flags) {
  const int file = memfd_create("kernel", MFD_CLOEXEC | kMemfdExec | flags);
  return file < 0 && errno == EINVAL ? memfd_create("kernel", MFD_CLOEXEC | flags) : file;
}

std::string PathOf(int file) { return absl::StrCat("/proc/self/fd/", file); }

// The loader knows libraries by name, and one that cannot be unloaded keeps its name.
bool IsLoaded(int file) {
  void* library = dlopen(PathOf(file).c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

std::vector<int>& ReservedFiles() {
  static auto* const files = new std::vector<int>;
  return *files;
}

absl::StatusOr<void*> OpenFile(int file, const std::string& binary) {
  RETURN_IF_ERROR(WriteAll(file, binary));
  const std::string path = PathOf(file);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = absl::StrCat("cannot load the kernel: ", dlerror());
    if (absl::StrContains(why, strerror(EMFILE))) return absl::ResourceExhaustedError(why);
    return absl::FailedPreconditionError(why);
  }
  return library;
}

// Loads from memory: the process may not be allowed to execute files that it can write.
// RESOURCE_EXHAUSTED reports the state of this process, which ran other kernels before, not a fault
// of the binary.
absl::StatusOr<void*> OpenLibrary(const std::string& binary) {
  for (const int file : ReservedFiles()) {
    if (!IsLoaded(file)) return OpenFile(file, binary);
  }
  const Descriptor file(MakeMemoryFile(0));
  if (file.get() < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory file for the compiled kernel: ", strerror(errno)));
  }
  // While this file is open the next one gets another number.
  return IsLoaded(file.get()) ? OpenLibrary(binary) : OpenFile(file.get(), binary);
}

}  // namespace

absl::Status ReserveMemoryFiles(int count, int64_t bytes_max) {
  for (int i = 0; i < count; ++i) {
    const int file = MakeMemoryFile(MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, bytes_max) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory files for compiled kernels: ", strerror(errno)));
    }
    ReservedFiles().push_back(file);
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedProgram> LoadedProgram::Load(const Program& program,
                                                  const BufferResolver& resolve) {
  if (program.steps.empty()) return absl::InvalidArgumentError("a program without steps");
  LoadedProgram loaded;
  RETURN_IF_ERROR(CheckSanitizer(program.binary));
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> units, Unbundle(program.binary));
  // The step with the most dynamic memory decides where the guard begins.
  for (const absl::string_view unit : units) {
    RETURN_IF_ERROR(loaded.Open(std::string(unit), DynamicSharedBytes(program.steps)));
  }
  for (const StepPlan& plan : program.steps) {
    ASSIGN_OR_RETURN(Step step, loaded.LoadStep(plan, resolve));
    loaded.steps_.push_back(std::move(step));
  }
  for (const SymbolPlan& plan : program.symbols) {
    ASSIGN_OR_RETURN(const Symbol symbol, loaded.LoadSymbol(plan, resolve));
    loaded.symbols_.push_back(symbol);
  }
  return loaded;
}

LoadedProgram::LoadedProgram(LoadedProgram&& other) noexcept
    : libraries_(std::exchange(other.libraries_, {})),
      steps_(std::move(other.steps_)),
      symbols_(std::move(other.symbols_)) {}

LoadedProgram::~LoadedProgram() {
  for (const Library& library : libraries_) dlclose(library.handle);
}

absl::Status LoadedProgram::Open(const std::string& binary, int64_t dynamic_bytes) {
  ASSIGN_OR_RETURN(void* handle, OpenLibrary(binary));
  Library& library = libraries_.emplace_back();
  library.handle = handle;
  const auto* abi = static_cast<const unsigned*>(dlsym(handle, "tune_cpu_abi"));
  library.set_shared =
      reinterpret_cast<decltype(library.set_shared)>(dlsym(handle, "tune_cpu_set_shared"));
  const auto bind = reinterpret_cast<void (*)(long)>(dlsym(handle, "tune_cpu_bind"));
  if (abi == nullptr || bind == nullptr) {
    return absl::FailedPreconditionError("the binary is not a kernel of the CPU device");
  }
  if (*abi != tune_cpu::kAbiVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the kernel was compiled for version ", *abi, " of the CPU device; this is ",
                     tune_cpu::kAbiVersion,
                     ": install tune-compile-cpu and tune-device-cpu of "
                     "one release"));
  }
  bind(BlockScheduler::StateOffset());
  library.guards = SharedGuards::Find(binary, handle, dynamic_bytes);
  return absl::OkStatus();
}

absl::StatusOr<const LoadedProgram::Library*> LoadedProgram::LibraryOf(int unit) const {
  if (unit >= 0 && static_cast<size_t>(unit) < libraries_.size()) {
    return &libraries_[static_cast<size_t>(unit)];
  }
  return absl::FailedPreconditionError(absl::StrCat("the artifact has no unit ", unit));
}

void LoadedProgram::FillGuards(Launcher& launcher) const {
  for (const Library& library : libraries_) library.guards.Fill(launcher);
}

std::string LoadedProgram::DescribeDamage(Launcher& launcher) const {
  for (const Library& library : libraries_) {
    std::string damage = library.guards.DescribeDamage(launcher);
    if (!damage.empty()) return damage;
  }
  return "";
}

absl::StatusOr<LoadedProgram::Symbol> LoadedProgram::LoadSymbol(
    const SymbolPlan& plan, const BufferResolver& resolve) const {
  ASSIGN_OR_RETURN(const Library* library, LibraryOf(plan.unit));
  // A pointer to the variable, whose size the compiler has checked.
  void* const* pointer = static_cast<void* const*>(dlsym(library->handle, plan.variable.c_str()));
  if (pointer == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the binary has no symbol '", plan.variable, "'"));
  }
  ASSIGN_OR_RETURN(const DeviceArray elements, resolve(plan.buffer));
  return Symbol{.variable = *pointer, .elements = elements};
}

absl::StatusOr<LoadedProgram::Step> LoadedProgram::LoadStep(const StepPlan& plan,
                                                            const BufferResolver& resolve) const {
  Step step;
  step.launch = plan.launch;
  ASSIGN_OR_RETURN(const Library* library, LibraryOf(plan.launch.unit));
  step.code.set_shared = library->set_shared;
  step.code.threads = reinterpret_cast<decltype(step.code.threads)>(
      dlsym(library->handle, absl::StrCat("tune_cpu_threads_", plan.launch.entry).c_str()));
  if (step.code.threads == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the binary has no kernel '", plan.launch.entry, "'"));
  }
  for (const ArgPlan& arg : plan.args) {
    Argument argument;
    if (const auto* buffer = std::get_if<BufferPlan>(&arg)) {
      ASSIGN_OR_RETURN(const DeviceArray array, resolve(*buffer));
      std::memcpy(argument.bytes.data(), &array.address, sizeof(array.address));
      argument.size = sizeof(array.address);
    } else if (const auto* scalar = std::get_if<ScalarPlan>(&arg)) {
      ASSIGN_OR_RETURN(argument.size, StoreScalar(*scalar, argument.bytes.data()));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor map '", std::get<TensorMapPlan>(arg).name,
                       "': the CPU device has none; leave it out for the target cpu"));
    }
    step.arguments.push_back(argument);
  }
  for (const BufferPlan& buffer : plan.zero) {
    ASSIGN_OR_RETURN(const DeviceArray array, resolve(buffer));
    step.zero.push_back(array);
  }
  RETURN_IF_ERROR(CheckParameters(*library, step));
  return step;
}

// The kernel reads as many arguments as it declares, of the sizes it declares.
absl::Status LoadedProgram::CheckParameters(const Library& library, const Step& step) const {
  const auto* list = static_cast<const unsigned*>(
      dlsym(library.handle, absl::StrCat("tune_cpu_parameters_", step.launch.entry).c_str()));
  if (list == nullptr) {
    return absl::FailedPreconditionError("the binary is not a kernel of the CPU device");
  }
  const unsigned count = *list;
  const auto* facts = reinterpret_cast<const tune_cpu::ParameterFact*>(list + 1);
  const std::vector<Argument>& arguments = step.arguments;
  if (count != arguments.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the kernel takes ", count, " parameters; its spec has ", arguments.size(), " args"));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (facts[i].size == arguments[i].size) continue;
    return absl::FailedPreconditionError(absl::StrCat("parameter ", i + 1, " of the kernel has ",
                                                      facts[i].size, " bytes; arg ", i + 1,
                                                      " of its spec has ", arguments[i].size));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> LoadedProgram::Launch(Launcher& launcher) const {
  for (const Symbol& symbol : symbols_) {
    std::memcpy(symbol.variable, symbol.elements.data(), symbol.elements.bytes());
  }
  std::optional<int64_t> begin_ns;
  const auto began = [&] {
    if (!begin_ns.has_value()) begin_ns = launcher.begin_ns();
  };
  for (const Step& step : steps_) {
    for (const DeviceArray& array : step.zero) {
      launcher.ForPieces(static_cast<int64_t>(array.bytes()), kZeroGrain,
                         [&array](unsigned, int64_t begin, int64_t end) {
                           std::memset(static_cast<char*>(array.data()) + begin, 0,
                                       static_cast<size_t>(end - begin));
                         });
      began();
    }
    std::vector<void*> pointers;
    for (const Argument& argument : step.arguments) {
      pointers.push_back(const_cast<unsigned char*>(argument.bytes.data()));
    }
    RETURN_IF_ERROR(launcher.Launch(step.code, step.launch, pointers.data()).status());
    began();
  }
  return static_cast<double>(launcher.end_ns() - *begin_ns);
}

}  // namespace tune::cpu

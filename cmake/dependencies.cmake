# Every third-party package, in one place. Versions are those of Debian 12; Ubuntu 24.04 is newer.
if(TUNE_STATIC)
  set(Protobuf_USE_STATIC_LIBS ON)
  set(Boost_USE_STATIC_LIBS ON)
endif()
find_package(Threads REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(absl REQUIRED)
find_package(gRPC 1.51 REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
# Its client library is opened at run time (db/libpq.h).
find_path(PostgreSQL_INCLUDE_DIR libpq-fe.h PATH_SUFFIXES postgresql REQUIRED)
find_package(ZLIB REQUIRED)                  # gzip of recordings
find_package(OpenSSL 3.0 REQUIRED)           # SHA-256
find_package(CLI11 2.1 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(fmt 9.1 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS context)  # fibers of the CPU device
find_package(prometheus-cpp REQUIRED)         # metrics: their registry and text
find_package(GTest 1.12 REQUIRED)
find_package(benchmark 1.7 REQUIRED)

# Programs look for Python and NVIDIA's wheels in this folder, besides the host's. Portable ones know no build's folder.
set(TUNE_VENV_DIR ${PROJECT_SOURCE_DIR}/.venv)
if(TUNE_PORTABLE)
  set(TUNE_VENV_DIR "")
endif()

if(TUNE_STATIC)
  include(cmake/static.cmake)
endif()

# Compiling the same text twice is waste where ccache is at hand.
find_program(TUNE_CCACHE ccache)
if(TUNE_CCACHE)
  # Without this it leaves alone whatever uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${TUNE_CCACHE})
endif()

# Absent on most build machines, so never required.
if(TUNE_CUDA)
  include(cmake/cuda.cmake)
endif()

# One folder, one target; the call is the folder's contract.
#
# tune_module(db
#   HEADERS store.h          # what other folders may include
#   SOURCES sqlite_store.cc
#   PUBLIC  tune::tuner      # appears in HEADERS
#   PRIVATE SQLite::SQLite3  # appears in SOURCES only
#   PRECOMPILE <grpcpp/grpcpp.h>  # headers that cost more than its own code: compiled once
#   OPTIMISE 1)                   # a release's level, for glue: no hot loops, all of it headers. Not 0: of
#                                 # the library's templates a program has one copy, and it may be this one
add_library(tune_warnings INTERFACE)
target_compile_options(tune_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers)

function(tune_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OPTIMISE" "HEADERS;SOURCES;PUBLIC;PRIVATE;PRECOMPILE")
  add_library(${name} STATIC ${arg_SOURCES})
  add_library(tune::${name} ALIAS ${name})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} tune_warnings)
  if(arg_PRECOMPILE)
    target_precompile_headers(${name} PRIVATE ${arg_PRECOMPILE})
  endif()
  if(DEFINED arg_OPTIMISE)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O${arg_OPTIMISE}>)
  endif()
endfunction()

# tune_program(tunerd SOURCES main.cc LIBRARIES tune::server): an executable, in bin/.
function(tune_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} tune_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
                        INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${name} RUNTIME DESTINATION bin)
  add_dependencies(programs ${name})
endfunction()

# tune_test(store_test LABEL unit SOURCES db/store_test.cc LIBRARIES tune::db): a GoogleTest. All share
# the precompiled headers of tests/main.cc, and so its flags. Skipped if every case that ran was.
function(tune_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TIMEOUT" "SOURCES;LIBRARIES;ENVIRONMENT")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} tune_test_main)
  target_precompile_headers(${name} REUSE_FROM tune_test_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${arg_TIMEOUT}
                       SKIP_RETURN_CODE 77 ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

# tune_embed(target file name): compiles a text file in as `extern const std::string_view name`
# (namespace tune::embedded), for device code that a worker hands to a compiler at run time.
function(tune_embed target file name)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cc)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${out} -DNAME=${name}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  target_sources(${target} PRIVATE ${out})
  set_source_files_properties(${out} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# Everything a user runs: what ./run builds.
add_custom_target(programs)

# One folder, one target; the call is the folder's contract.
#
# tune_module(db
#   HEADERS store.h          # what other folders may include
#   SOURCES sqlite_store.cc
#   PUBLIC  tune::tuner      # appears in HEADERS
#   PRIVATE SQLite::SQLite3  # appears in SOURCES only
#   PRECOMPILE <grpcpp/grpcpp.h>  # headers that cost more than its own code: compiled once, where files are not grouped
#   REUSE server_headers          # or those that another target, with the same flags, precompiled
#   SHARED                        # libtune takes it, too: its code is made for shared libraries
#   OPTIMISE 1)                   # a release's level, for glue: no hot loops, all of it headers. Not 0: of
#                                 # the library's templates a program has one copy, and it may be this one
add_library(tune_warnings INTERFACE)
target_compile_options(tune_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers)

# With CMAKE_UNITY_BUILD, up to 24 sources of a folder are compiled as one: headers are nine tenths of what a file costs.
# So a name without linkage is its folder's, not its file's.
function(tune_group_by_folder target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    math(EXPR group "${count_${folder}} + 0")
    math(EXPR count_${folder} "${group} + 1")
    math(EXPR group "${group} / 24")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${group}")
  endforeach()
endfunction()

function(tune_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SHARED" "OPTIMISE;REUSE"
                        "HEADERS;SOURCES;PUBLIC;PRIVATE;PRECOMPILE")
  add_library(${name} STATIC ${arg_SOURCES})
  tune_group_by_folder(${name} ${arg_SOURCES})
  add_library(tune::${name} ALIAS ${name})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} tune_warnings)
  if(arg_PRECOMPILE AND NOT CMAKE_UNITY_BUILD)
    target_precompile_headers(${name} PRIVATE ${arg_PRECOMPILE})
  elseif(arg_REUSE)
    target_precompile_headers(${name} REUSE_FROM ${arg_REUSE})
  endif()
  if(arg_SHARED)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
                          CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
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
                        BUILD_WITH_INSTALL_RPATH ON  # else it is padded with empty paths: the working directory
                        INSTALL_RPATH "$ORIGIN/../lib" LINK_DEPENDS "${TUNE_LINK_DEPENDS}")
  install(TARGETS ${name} RUNTIME DESTINATION bin)
  add_dependencies(programs ${name})
endfunction()

set(tune_test_seconds_max 120)
if(CMAKE_CROSSCOMPILING)
  set(tune_test_seconds_max 1200)  # under an emulator
endif()

# tune_tests(db LIBRARIES tune::db): the GoogleTest program db_tests, of every *_test.cc in and below the
# current folder. Each file is a test of ctest, named by its path in tests/ ("db/jobs_test").
#   SOURCES      more of its sources       DEFINITIONS  macros       PROGRAMS  targets that it starts
#   EXCEPT       a pattern of paths below the folder that it leaves out
#   PRECOMPILE   more headers to precompile: worth it for many files
# Without PRECOMPILE programs share the precompiled headers of tests/main.cc, and so its flags. A file
# whose cases were all skipped is skipped.
function(tune_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCEPT" "SOURCES;LIBRARIES;DEFINITIONS;PROGRAMS;PRECOMPILE")
  file(GLOB_RECURSE files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *_test.cc)
  if(arg_EXCEPT)
    list(FILTER files EXCLUDE REGEX "${arg_EXCEPT}")
  endif()
  set(program ${name}_tests)
  add_executable(${program} ${files} ${arg_SOURCES})
  tune_group_by_folder(${program} ${files} ${arg_SOURCES})
  target_link_libraries(${program} PRIVATE ${arg_LIBRARIES} tune_test_main)
  target_compile_definitions(${program} PRIVATE ${arg_DEFINITIONS})
  if(arg_PRECOMPILE)
    target_precompile_headers(${program} PRIVATE ${test_headers} ${arg_PRECOMPILE})
  else()
    target_precompile_headers(${program} REUSE_FROM tune_test_main)
  endif()
  if(arg_PROGRAMS)
    add_dependencies(${program} ${arg_PROGRAMS})
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})  # its cases are read here
    file(READ ${file} text)
    string(REGEX MATCHALL "\n(TYPED_)?TEST(_[FP])?\\([ \n]*[A-Za-z0-9]+,[ \n]*[A-Za-z0-9]+\\)" cases "${text}")
    list(TRANSFORM cases REPLACE "[ \n]" "")
    list(TRANSFORM cases REPLACE "^TEST_P\\((.*),(.*)\\)" "*/\\1.\\2/*")
    list(TRANSFORM cases REPLACE "^TYPED_TEST\\((.*),(.*)\\)" "\\1/*.\\2")
    list(TRANSFORM cases REPLACE "^TEST(_F)?\\((.*),(.*)\\)" "\\2.\\3")
    list(JOIN cases ":" filter)
    cmake_path(REMOVE_EXTENSION file OUTPUT_VARIABLE stem)
    add_test(NAME ${folder}/${stem} COMMAND ${program} "--gtest_filter=${filter}")
    set_tests_properties(${folder}/${stem} PROPERTIES LABELS unit TIMEOUT ${tune_test_seconds_max} SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

# tune_label("kernels;triton" 900 kernels/triton_test ...): the labels of tests, and their time limit in seconds.
function(tune_label labels timeout)
  set_tests_properties(${ARGN} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout})
endfunction()

# tune_python_test(tunectl_test e2e 900 tunectl_test.py): a script, under the Python that the build found.
function(tune_python_test name labels timeout script)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                       ENVIRONMENT "TUNE_BIN=${PROJECT_BINARY_DIR}/bin")
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
  set_source_files_properties(${out} PROPERTIES SKIP_PRECOMPILE_HEADERS ON UNITY_GROUP embedded)
endfunction()

# Everything a user runs: what ./run builds.
add_custom_target(programs)

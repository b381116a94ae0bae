# TUNE_STATIC: one relocatable folder for hosts where nothing can be installed. Debian's package files
# name shared libraries; wherever the archive lies beside one, it is linked instead. OpenSSL and the C
# and C++ runtimes stay shared: every host has them.
#
# TUNE_PORTABLE: a folder of tools/portable.sh, for programs that run on other distributions. Everything
# but glibc and GCC's libgcc_s is linked statically, against the stub libraries of an older glibc.
add_link_options(-Wl,--as-needed -Wl,--gc-sections)
if(TUNE_PORTABLE)
  # The host's own libgcc_s refers to symbols of its glibc.
  add_link_options(-B${TUNE_PORTABLE}/glibc -L${TUNE_PORTABLE}/glibc -static-libstdc++
                   -Wl,--allow-shlib-undefined)
  set(TUNE_LINK_DEPENDS ${TUNE_PORTABLE}/glibc/libc.so ${TUNE_PORTABLE}/lib/libglibc_compat.a)
endif()

function(tune_link_archive target)
  foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE)
    get_target_property(location ${target} ${property})
    if(NOT location OR NOT location MATCHES "\\.so")
      continue()
    endif()
    string(REGEX REPLACE "\\.so.*$" ".a" archive ${location})
    cmake_path(GET archive FILENAME name)
    if(EXISTS "${TUNE_PORTABLE}/lib/${name}")
      set(archive ${TUNE_PORTABLE}/lib/${name})
    endif()
    if(EXISTS ${archive} AND (TUNE_PORTABLE OR NOT archive MATCHES "libssl|libcrypto"))
      set_target_properties(${target} PROPERTIES ${property} ${archive})
    endif()
  endforeach()
endfunction()

get_property(imported_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${imported_targets})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY" OR type STREQUAL "UNKNOWN_LIBRARY")
    tune_link_archive(${target})
  endif()
endforeach()

# Found through pkg-config, which gives flags and not a file.
if(TARGET re2::re2)
  find_library(TUNE_RE2_ARCHIVE libre2.a REQUIRED)
  set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES ${TUNE_RE2_ARCHIVE})
endif()

# These have no archives of the distribution: they travel beside the programs (INSTALL_RPATH in module.cmake).
if(NOT TUNE_PORTABLE)
  install(IMPORTED_RUNTIME_ARTIFACTS benchmark::benchmark fmt::fmt prometheus-cpp::core spdlog::spdlog
          LIBRARY DESTINATION lib)
endif()

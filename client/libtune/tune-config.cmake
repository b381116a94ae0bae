# find_package(tune): the target tune::tune, for <tune/tune.h> (C99) and <tune/tune.hpp> (C++17).
include(${CMAKE_CURRENT_LIST_DIR}/tune-targets.cmake)

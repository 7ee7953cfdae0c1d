# slotstream_layer(NAME USES layer... LIBRARIES target...)
#
# A folder of src/ as a static library slotstream_NAME, and its *_test.cc files as one test program
# NAME_test registered with ctest. USES names the layers that it may include.
if(SLOTSTREAM_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

function(slotstream_layer name)
  cmake_parse_arguments(LAYER "" "" "USES;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM LAYER_USES PREPEND slotstream_)

  if(sources)
    set(scope PUBLIC)
    add_library(slotstream_${name} STATIC ${sources})
  else()
    set(scope INTERFACE)
    add_library(slotstream_${name} INTERFACE)
  endif()
  target_include_directories(slotstream_${name} ${scope} ${CMAKE_SOURCE_DIR}/src
                             ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(slotstream_${name} ${scope} ${LAYER_USES} ${LAYER_LIBRARIES})

  if(tests AND SLOTSTREAM_TESTS)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE slotstream_${name} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE
      SLOTSTREAM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60)
  endif()
endfunction()

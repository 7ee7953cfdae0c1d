# The web page of src/server/page/, put together and compiled into the server.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB page_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/server/page/*)
set(page_cc ${CMAKE_BINARY_DIR}/generated/server/embedded_page.cc)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/server)
add_custom_command(
  OUTPUT ${page_cc}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed_page.py
          ${CMAKE_SOURCE_DIR}/src/server/page ${page_cc}
  DEPENDS ${page_sources} ${CMAKE_SOURCE_DIR}/tools/embed_page.py
  VERBATIM)
target_sources(slotstream_server PRIVATE ${page_cc})

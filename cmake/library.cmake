# Flags that everything shares, and one function that makes the library of a folder.
add_library(tscompile_flags INTERFACE)
target_include_directories(tscompile_flags INTERFACE ${PROJECT_SOURCE_DIR})
# The same bits at every optimisation level: products and sums are fused only in explicit SIMD kernels.
target_compile_options(tscompile_flags INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # g++ 12 warns of impossible string lengths
if(TSCOMPILE_ARCH)
  target_compile_options(tscompile_flags INTERFACE -march=${TSCOMPILE_ARCH})
endif()
if(TSCOMPILE_WERROR)
  target_compile_options(tscompile_flags INTERFACE -Werror)
endif()
if(TSCOMPILE_SANITIZE)
  target_compile_options(tscompile_flags INTERFACE
    -fsanitize=${TSCOMPILE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tscompile_flags INTERFACE -fsanitize=${TSCOMPILE_SANITIZE})
endif()

if(TSCOMPILE_FUZZER)
  target_compile_options(tscompile_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# ts_library(NAME [FOLDERS inner...] [DEPENDS libraries...] [SOURCES extra...]): all .cpp files of the current folder
# and of those inside it, linked to what the layers allow and to nothing else.
function(ts_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;SOURCES;FOLDERS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(folder ${ARG_FOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  add_library(${name} STATIC ${sources} ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE tscompile_flags)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
endfunction()

# Shared libraries with operators and converters call these files (docs/writing_converters.md).
function(ts_export)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-fvisibility=default;-fno-semantic-interposition")
endfunction()

# Flags that everything shares, and one function that makes the library of a folder.
add_library(tscompile_flags INTERFACE)
target_include_directories(tscompile_flags INTERFACE ${PROJECT_SOURCE_DIR})
# The same bits at every optimisation level: products and sums are fused only in explicit SIMD kernels.
target_compile_options(tscompile_flags INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # g++ 12 warns of impossible string lengths
# Functions can be placed each by itself: those that a program runs first together, those that nothing calls nowhere.
target_compile_options(tscompile_flags INTERFACE -ffunction-sections)
if(TSCOMPILE_ARCH)
  target_compile_options(tscompile_flags INTERFACE -march=${TSCOMPILE_ARCH})
endif()
if(TSCOMPILE_WERROR)
  target_compile_options(tscompile_flags INTERFACE -Werror
    $<$<CXX_COMPILER_ID:GNU>:-Wno-error=stringop-overflow -Wno-error=array-bounds>)  # the same impossible lengths
endif()
if(TSCOMPILE_SANITIZE)
  target_compile_options(tscompile_flags INTERFACE
    -fsanitize=${TSCOMPILE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tscompile_flags INTERFACE -fsanitize=${TSCOMPILE_SANITIZE})
  # Elements beyond the size of a container, which its memory may have, are no faults to the sanitizers.
  target_compile_definitions(tscompile_flags INTERFACE _GLIBCXX_ASSERTIONS)
endif()

if(TSCOMPILE_FUZZER)
  target_compile_options(tscompile_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Highway's headers alone: kernels/simd.h dispatches, so nothing of its library is needed. x86-64-v3 lacks only AES of
# what Highway wants for AVX2 as the baseline.
target_compile_definitions(tscompile_flags INTERFACE
  HWY_IS_DEBUG_BUILD=0 HWY_DISABLE_PCLMUL_AES "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Collecting garbage would walk the precompiled header again and again: 5 to 15 % of a source's time.
  target_compile_options(tscompile_flags INTERFACE "SHELL:--param ggc-min-heapsize=2000000" "SHELL:--param ggc-min-expand=1000")
  # For ccache, which is to see what a precompiled header holds.
  target_compile_options(tscompile_flags INTERFACE -fpch-preprocess)
endif()

# What shared libraries with operators and converters call (docs/writing_converters.md).
set(ts_export_options -fvisibility=default -fno-semantic-interposition)

# -O3 is for loops over elements. -O2 takes a quarter of the compiler's time away, -O1 two fifths.
function(ts_optimize target level)
  if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O${level}>)
  endif()
endfunction()

# With -O1 alone, functions that run once at the start are scattered over the program: each brings 64 KB into memory.
function(ts_gather_starts target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-freorder-functions>)
endfunction()

# What nearly every source includes, compiled once for each level: sources get the level of the header that they reuse,
# whatever their own flags say. docs/testing.md has what it saves.
function(ts_precompile name header level)
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
  target_link_libraries(${name} PRIVATE tscompile_flags fmt::fmt)
  ts_optimize(${name} ${level})
  target_precompile_headers(${name} PRIVATE <cmake/${header}>)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/precompile.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()
ts_precompile(tscompile_precompiled precompiled.h 2)
ts_precompile(tscompile_precompiled_loops precompiled.h 3)
# What one step of a loop shares with the next is read again, from memory nearby: kept, it takes registers from sums.
set(ts_loop_options $<$<CXX_COMPILER_ID:GNU>:-fno-predictive-commoning>)
target_compile_options(tscompile_precompiled_loops PRIVATE ${ts_loop_options})
ts_precompile(tscompile_precompiled_cold precompiled_cold.h 1)  # JSON besides
ts_gather_starts(tscompile_precompiled_cold)
ts_precompile(tscompile_precompiled_exported precompiled.h 2)
target_compile_options(tscompile_precompiled_exported PRIVATE ${ts_export_options})

# Compiles sources of a folder together, at most TSCOMPILE_UNITY of them: what their templates become is made once for all
# of them. So names without linkage differ in a folder. Those that Highway includes for each instruction set stay alone.
function(ts_unite target)
  if(NOT TSCOMPILE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  set(folders "")
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(EXISTS ${path} AND NOT alone)
      file(STRINGS ${path} simd REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
      cmake_path(REMOVE_FILENAME folder)
      string(MAKE_C_IDENTIFIER "${folder}" folder)
      if(NOT simd)
        list(APPEND folders ${folder})
        list(APPEND sources_${folder} ${source})
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    ts_unite_folder(${folder} ${sources_${folder}})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# As few groups as can be, of nearly the same size.
function(ts_unite_folder folder)
  list(LENGTH ARGN count)
  math(EXPR groups "(${count} + ${TSCOMPILE_UNITY} - 1) / ${TSCOMPILE_UNITY}")
  set(at 0)
  foreach(source ${ARGN})
    math(EXPR group "${at} * ${groups} / ${count}")
    math(EXPR at "${at} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}${group}")
  endforeach()
endfunction()

# ts_library(NAME [EXPORT|LOOPS|COLD] [FOLDERS inner...] [DEPENDS libraries...] [SOURCES extra...]): all .cpp files
# of the folders, which are the current one if none is named, linked to what the layers allow and to nothing else.
# EXPORT: shared libraries may call all of it. LOOPS: its time goes into loops over elements. COLD: it runs once for a
# program, or joins what others compute.
function(ts_library name)
  cmake_parse_arguments(ARG "EXPORT;LOOPS;COLD" "" "DEPENDS;SOURCES;FOLDERS" ${ARGN})
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS .)
  endif()
  set(sources)
  foreach(folder ${ARG_FOLDERS})
    cmake_path(ABSOLUTE_PATH folder NORMALIZE)
    cmake_path(APPEND folder "*.cpp" OUTPUT_VARIABLE pattern)
    file(GLOB more CONFIGURE_DEPENDS ${pattern})
    list(APPEND sources ${more})
  endforeach()
  add_library(${name} STATIC ${sources} ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} fmt::fmt PRIVATE tscompile_flags)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  if(ARG_EXPORT)
    target_compile_options(${name} PRIVATE ${ts_export_options})
    ts_optimize(${name} 2)
    target_precompile_headers(${name} REUSE_FROM tscompile_precompiled_exported)
  elseif(ARG_LOOPS)
    target_compile_options(${name} PRIVATE ${ts_loop_options})
    target_precompile_headers(${name} REUSE_FROM tscompile_precompiled_loops)
  elseif(ARG_COLD)
    ts_optimize(${name} 1)
    ts_gather_starts(${name})
    target_precompile_headers(${name} REUSE_FROM tscompile_precompiled_cold)
  else()
    ts_optimize(${name} 2)
    target_precompile_headers(${name} REUSE_FROM tscompile_precompiled)
  endif()
  ts_unite(${name})
  set_property(GLOBAL APPEND PROPERTY TSCOMPILE_ROOMS ${name})
endfunction()

# Places what runs from the start of a program to its first results together, where the linker can: apart, each of these
# functions brings 64 KB into memory (tests/tools/startup_order.py).
include(CheckLinkerFlag)
set(ts_startup_order ${PROJECT_SOURCE_DIR}/cmake/startup_order.ld)
check_linker_flag(CXX "LINKER:--gc-sections,-T,${ts_startup_order}" TSCOMPILE_CAN_ORDER)
function(ts_order_startup target)
  if(TSCOMPILE_CAN_ORDER)
    target_link_options(${target} PRIVATE "LINKER:--gc-sections,-T,${ts_startup_order}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${ts_startup_order})
  endif()
endfunction()

# Single files that shared libraries call.
function(ts_export)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${ts_export_options}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

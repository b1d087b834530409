// Files that are part of the program.
#pragma once

// Between paths: several files, one after the other.
#define TS_AND "\"\n.incbin \""

// Puts the bytes of a file between symbolBegin and symbolEnd, and a zero after them. Outside of namespaces.
#define TS_EMBED(symbol, path)             \
  __asm__(                                 \
      ".section .rodata\n"                 \
      ".globl " #symbol                    \
      "Begin\n"                            \
      ".hidden " #symbol "Begin\n" #symbol \
      "Begin:\n"                           \
      ".incbin \"" path                    \
      "\"\n"                               \
      ".globl " #symbol                    \
      "End\n"                              \
      ".hidden " #symbol "End\n" #symbol   \
      "End:\n"                             \
      ".byte 0\n"                          \
      ".previous\n");                      \
  extern "C" const char symbol##Begin[];   \
  extern "C" const char symbol##End[]

// Bounds on what an input may ask for. Each has a name for the command line (`--limit nodes=1000`).
#pragma once

#include <cstdint>
#include <string_view>

namespace tscompile {

struct Limits {
  uint64_t textBytes = uint64_t{1} << 30;        // a graph text
  uint64_t nodes = 10'000'000;                   // of all graphs of a text
  uint64_t values = 20'000'000;                  // the same
  uint64_t blocks = 1 << 20;                     // blocks open inside each other
  uint64_t identifierBytes = 64 << 10;           // a name
  uint64_t stringBytes = 16 << 20;               // a string literal, unescaped
  uint64_t numberBytes = 4096;                   // a number literal
  uint64_t listItems = 4 << 20;                  // a list, tuple or dict literal
  uint64_t typeDepth = 256;                      // types inside each other
  uint64_t arguments = 1 << 20;                  // inputs or outputs of one node
  uint64_t printBytes = uint64_t{1} << 30;       // a printed text
  uint64_t headerBytes = 100'000'000;            // the header of a safetensors file
  uint64_t tensors = 1 << 20;                    // in a weights file
  uint64_t npyHeaderBytes = 64 << 10;            // the header of an .npy file
  uint64_t generatedBytes = uint64_t{16} << 30;  // tensors that a text asks to generate
};

// How options and messages call a limit.
struct LimitName {
  const char* name;
  uint64_t Limits::*field;
  const char* what;
};
inline constexpr LimitName kLimitNames[] = {
    {"text", &Limits::textBytes, "bytes of a graph text"},
    {"nodes", &Limits::nodes, "nodes of a text"},
    {"values", &Limits::values, "values of a text"},
    {"blocks", &Limits::blocks, "blocks nested inside each other"},
    {"identifier", &Limits::identifierBytes, "bytes of a name"},
    {"string", &Limits::stringBytes, "bytes of a string literal"},
    {"number", &Limits::numberBytes, "bytes of a number literal"},
    {"list", &Limits::listItems, "items of a list literal"},
    {"type-depth", &Limits::typeDepth, "types or literals nested inside each other"},
    {"arguments", &Limits::arguments, "inputs or outputs of a node"},
    {"print", &Limits::printBytes, "bytes of a printed text"},
    {"header", &Limits::headerBytes, "bytes of a safetensors header"},
    {"tensors", &Limits::tensors, "tensors of a weights file"},
    {"npy-header", &Limits::npyHeaderBytes, "bytes of an .npy header"},
    {"generated", &Limits::generatedBytes, "bytes of generated tensors"},
};

// Bounds of every tensor, not configurable: dimensions, elements.
inline constexpr int kMaxRank = 64;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

}  // namespace tscompile

// What tests of file readers share: the tensor files that are checked in, numbers as bytes, results and reports as
// text.
#pragma once

#include "ir/support/diagnostic_printer.h"
#include "ir/support/result.h"
#include "ir/values/tensor.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>

namespace tscompile::test {

// A tensor file of tests/data/files.
inline std::string dataFile(std::string_view name) { return TSCOMPILE_TESTS_DIR "/data/files/" + std::string(name); }

// A number of n bytes, the lowest first.
inline std::string littleEndian(uint64_t value, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  return out;
}

// All reports as they are shown, without the folder of a path.
inline std::string shown(const Diagnostics& diagnostics) {
  std::string text = renderDiagnostics(diagnostics, "test");
  for (size_t at; (at = text.find("/tmp/")) != std::string::npos;) {
    size_t end = text.find_first_of(":' \n", at);
    size_t slash = text.rfind('/', end);
    text.erase(at, slash + 1 - at);
  }
  return text;
}

// "float32 [2, 3]: 0 1 2 3 4 5", or the reports.
inline std::string shown(const Result<Tensor>& t, const Diagnostics& diagnostics) {
  if (!t) return shown(diagnostics);
  std::ostringstream out;
  out << pythonName(t->dtype()) << " " << dimsText(t->sizes()) << ":";
  for (int64_t i = 0; i < t->numel(); ++i) {
    out << " ";
    if (isComplex(t->dtype()))
      out << t->complex(i);
    else if (isIntegral(t->dtype(), true))
      out << t->integer(i);
    else
      out << t->real(i);
  }
  return out.str();
}

// The bytes of a contiguous tensor.
inline std::string_view memoryOf(const Tensor& t) {
  EXPECT_TRUE(t.isContiguous());
  return {reinterpret_cast<const char*>(t.raw()), static_cast<size_t>(t.numel()) * itemSize(t.dtype())};
}

// Whether a reader of untrusted bytes has done its duty: a value, or at least one report, each inside the file.
template <class T>
::testing::AssertionResult isWellFormed(const Result<T>& result, const Diagnostics& diagnostics, size_t fileBytes) {
  if (result.ok() == diagnostics.hasErrors())
    return ::testing::AssertionFailure() << "a value and an error, or neither";
  for (const Diagnostic& d : diagnostics.list())
    if (d.message.empty() || (d.offset && *d.offset > fileBytes))
      return ::testing::AssertionFailure() << shown(diagnostics);
  return ::testing::AssertionSuccess();
}

}  // namespace tscompile::test

#include "ir/values/tensor_stream.h"

#include <charconv>
#include <cmath>

namespace tscompile {
namespace {

std::string formatted(double v, std::chars_format format, int precision) {
  if (!std::isfinite(v)) return std::isnan(v) ? (std::signbit(v) ? "-nan" : "nan") : v > 0 ? "inf" : "-inf";
  char buffer[400];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v, format, precision);
  return std::string(buffer, end);
}

// How the numbers of one matrix or vector are laid out.
struct NumberFormat {
  double scale = 1;
  int width = 0;
  std::chars_format style = std::chars_format::general;
};

NumberFormat chooseFormat(const double* values, int64_t count) {
  bool integers = true, any = false;
  double least = 1, most = 1;
  for (int64_t i = 0; i < count; ++i) {
    double v = values[i];
    if (!std::isfinite(v)) continue;
    if (v != std::ceil(v)) integers = false;
    double magnitude = std::fabs(v);
    // The maximum moves only when the *signed* value exceeds it: PyTorch's quirk.
    if (!any) {
      least = most = magnitude;
      any = true;
    } else {
      if (magnitude < least) least = magnitude;
      if (v > most) most = magnitude;
    }
  }
  auto exponent = [any](double v) { return !any || v == 0 ? 1 : static_cast<int>(std::floor(std::log10(v))) + 1; };
  int low = exponent(least), high = exponent(most);
  NumberFormat f;
  if (integers) {
    f.width = high > 9 ? 11 : high + 1;
    if (high > 9) f.style = std::chars_format::scientific;
  } else if (high - low > 4) {
    f.width = std::abs(high) > 99 || std::abs(low) > 99 ? 12 : 11;
    f.style = std::chars_format::scientific;
  } else {
    f.style = std::chars_format::fixed;
    f.width = high > 5 || high < 0 || high == 0 ? 7 : high + 6;
    if (high > 5 || high < 0) f.scale = std::pow(10.0, high - 1);
  }
  return f;
}

class TensorStream {
 public:
  TensorStream(const Tensor& tensor, std::string& out, const TextCheck& check) : t_(tensor), out_(out), check_(check) {}

  void print() {
    if (t_.rank() == 0) {
      appendGeneral(t_.real(0), 6, out_);
      out_ += '\n';
    } else if (t_.numel() != 0) {
      if (t_.rank() == 1)
        vector();
      else if (t_.rank() == 2)
        matrix(0, 0);
      else
        matrices();
    }
    out_ += "[ CPU";
    out_ += graphName(t_.dtype());
    out_ += "Type{";
    for (int d = 0; d < t_.rank(); ++d) {
      if (d) out_ += ',';
      out_ += std::to_string(t_.size(d));
    }
    out_ += "} ]";
  }

 private:
  void checkLength() {
    if (check_) check_(out_);
  }

  // The values from `first` on in row-major order.
  void load(int64_t first, int64_t count) {
    values_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values_[static_cast<size_t>(i)] = t_.real(first + i);
  }

  NumberFormat useFormat() {
    NumberFormat f = chooseFormat(values_.data(), static_cast<int64_t>(values_.size()));
    // The stream keeps its precision from one matrix to the next.
    if (f.style != std::chars_format::general) precision_ = 4;
    return f;
  }

  void number(const NumberFormat& f, double v) {
    std::string s = formatted(v / f.scale, f.style, precision_);
    if (s.size() < static_cast<size_t>(f.width)) out_.append(static_cast<size_t>(f.width) - s.size(), ' ');
    out_ += s;
  }
  void scale(const NumberFormat& f) {
    appendGeneral(f.scale, precision_, out_);
    out_ += " *\n";
  }

  void vector() {
    load(0, t_.numel());
    NumberFormat f = useFormat();
    if (f.scale != 1) scale(f);
    for (double v : values_) {
      number(f, v);
      out_ += '\n';
      checkLength();
    }
  }

  // The matrix of the last two dimensions that begins at this element.
  void matrix(int64_t first, size_t indent) {
    constexpr int64_t kLine = 80;
    int64_t rows = t_.size(t_.rank() - 2), columns = t_.size(t_.rank() - 1);
    load(first, rows * columns);
    NumberFormat f = useFormat();
    std::string margin(indent, ' ');
    out_ += margin;
    int64_t perLine = std::max<int64_t>(1, (kLine - static_cast<int64_t>(indent)) / (f.width + 1));
    for (int64_t from = 0; from < columns; from += perLine) {
      int64_t to = std::min(from + perLine, columns);
      if (perLine < columns) {
        if (from != 0) out_ += '\n';
        out_ += "Columns " + std::to_string(from + 1) + " to " + std::to_string(to) + margin;
      }
      if (f.scale != 1) {
        scale(f);
        out_ += margin;
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = from; c < to; ++c) {
          number(f, values_[static_cast<size_t>(r * columns + c)]);
          out_ += c + 1 == to ? '\n' : ' ';
        }
        if (r + 1 == rows) break;
        out_ += margin;
        if (f.scale != 1) out_ += ' ';
        checkLength();
      }
      checkLength();
    }
  }

  // One matrix after the other; the first dimension counts fastest.
  void matrices() {
    int outer = t_.rank() - 2;
    int64_t size = t_.size(outer) * t_.size(outer + 1);
    std::vector<int64_t> index(static_cast<size_t>(outer), 0);
    for (int64_t m = 0; m < t_.numel() / size; ++m) {
      if (m > 0) out_ += '\n';
      out_ += '(';
      int64_t at = 0;
      for (int d = 0; d < outer; ++d) {
        out_ += std::to_string(index[static_cast<size_t>(d)] + 1) + ",";
        at = at * t_.size(d) + index[static_cast<size_t>(d)];
      }
      out_ += ".,.) = \n";
      matrix(at * size, 1);
      for (int d = 0; d < outer && ++index[static_cast<size_t>(d)] == t_.size(d); ++d)
        index[static_cast<size_t>(d)] = 0;
    }
  }

  const Tensor& t_;
  std::string& out_;
  const TextCheck& check_;
  std::vector<double> values_;
  int precision_ = 6;
};

}  // namespace

void appendGeneral(double v, int precision, std::string& out) {
  out += formatted(v, std::chars_format::general, precision);
}

void appendTensorStream(const Tensor& tensor, std::string& out, const TextCheck& check) {
  TensorStream(tensor, out, check).print();
}

}  // namespace tscompile

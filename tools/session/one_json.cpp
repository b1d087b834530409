#include "tools/session/one_json.h"

#include "ir/support/json_fields.h"

namespace tscompile {
namespace {

struct TextFields {
  std::string_view command, text;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.text/1");
    visit("command", command);
    visit("text", text);
  }
};

struct DoneFields {
  std::string_view command;
  int code;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.done/1");
    visit("command", command);
    visit("exit_code", code);
  }
};

}  // namespace

OneJson::int_type OneJson::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize OneJson::xsputn(const char* text, std::streamsize count) {
  if (count <= 0) return 0;
  if (text_.empty() && !isObject_) isObject_ = text[0] == '{';
  if (!isObject_) {
    text_.append(text, static_cast<size_t>(count));
    return count;
  }
  out_.write(text, count);
  return out_ ? count : 0;
}

void OneJson::end(std::string_view command, int code) {
  if (isObject_) return;
  if (!text_.empty())
    writeJson(out_, TextFields{command, text_});
  else if (code == 0)
    writeJson(out_, DoneFields{command, code});
}

}  // namespace tscompile

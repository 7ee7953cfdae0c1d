#include "text/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

namespace slotstream::text {
namespace {

// repr() of a Python float: the shortest digits that read back the same, positional for exponents
// from -4 to 15, else scientific with at least two digits of exponent.
std::string PythonFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::array<char, 64> buffer;
  auto shortest = [&](std::chars_format format) {
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
    return std::string(buffer.data(), end.ptr);
  };
  const std::string scientific = shortest(std::chars_format::scientific);  // d.ddde+XX
  int exponent = 0;
  const size_t e = scientific.find('e');
  const size_t digits = scientific[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(scientific.data() + digits, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) return scientific;
  std::string fixed = shortest(std::chars_format::fixed);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

std::string Float(double value, JsonStyle style) {
  if (style == JsonStyle::kCompact && value == std::trunc(value) && std::abs(value) < 1e15) {
    return fmt::format("{}", static_cast<int64_t>(value));
  }
  return PythonFloat(value);
}

void Append(const OrderedJson& value, JsonStyle style, std::string& out) {
  const std::string_view comma = style == JsonStyle::kPython ? ", " : ",";
  const std::string_view colon = style == JsonStyle::kPython ? ": " : ":";
  auto append_string = [&out](const std::string& text) {
    out.push_back('"');
    AppendEscaped(text, out);
    out.push_back('"');
  };
  bool first = true;
  switch (value.type()) {
    case OrderedJson::value_t::object:
      out.push_back('{');
      for (const auto& [key, member] : value.items()) {
        if (!std::exchange(first, false)) out.append(comma);
        append_string(key);
        out.append(colon);
        Append(member, style, out);
      }
      out.push_back('}');
      break;
    case OrderedJson::value_t::array:
      out.push_back('[');
      for (const OrderedJson& element : value) {
        if (!std::exchange(first, false)) out.append(comma);
        Append(element, style, out);
      }
      out.push_back(']');
      break;
    case OrderedJson::value_t::string:
      append_string(value.get_ref<const std::string&>());
      break;
    case OrderedJson::value_t::boolean:
      out.append(value.get<bool>() ? "true" : "false");
      break;
    case OrderedJson::value_t::number_integer:
      out.append(fmt::format("{}", value.get<int64_t>()));
      break;
    case OrderedJson::value_t::number_unsigned:
      out.append(fmt::format("{}", value.get<uint64_t>()));
      break;
    case OrderedJson::value_t::number_float:
      out.append(Float(value.get<double>(), style));
      break;
    case OrderedJson::value_t::null:
    case OrderedJson::value_t::binary:     // no parser of text makes one
    case OrderedJson::value_t::discarded:  // likewise
      out.append("null");
      break;
  }
}

}  // namespace

bool DeeperThan(const OrderedJson& value, size_t depth) {
  if (!value.is_structured()) return false;
  if (depth == 0) return true;
  return std::any_of(value.begin(), value.end(),
                     [depth](const OrderedJson& member) { return DeeperThan(member, depth - 1); });
}

Result<std::string> WriteJson(const OrderedJson& value, JsonStyle style) {
  if (DeeperThan(value, kDeepestJson)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("JSON is nested deeper than {} levels", kDeepestJson));
  }
  std::string out;
  Append(value, style, out);
  return out;
}

void AppendEscaped(std::string_view raw, std::string& out) {
  for (char c : raw) {
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      case '\b':
        out.append("\\b");
        break;
      case '\f':
        out.append("\\f");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out.append(fmt::format("\\u{:04x}", static_cast<unsigned char>(c)));
        } else {
          out.push_back(c);
        }
    }
  }
}

}  // namespace slotstream::text

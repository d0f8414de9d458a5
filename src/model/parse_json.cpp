#include "model/parse_json.hpp"

#include <unordered_set>
#include <utility>

#include "core/json_depth.hpp"

namespace truemax {
namespace {

class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(LongLists* lists) : lists_(lists) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add_number(value); }
  bool number_unsigned(number_unsigned_t value) override { return add_number(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add_number(value); }
  bool string(string_t& value) override {
    if (list_ == List::classes) {
      lists_->classes.push_back(std::move(value));
      return true;
    }
    return add(std::move(value));
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override {
    if (bad_entry()) return true;
    open_.push_back(place(nlohmann::json::object()));
    keys_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (inside_bad_ > 0) return true;
    twice |= !keys_.back().insert(name).second;
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    if (inside_bad_ > 0) return --inside_bad_, true;
    open_.pop_back();
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    if (bad_entry()) return true;
    const bool top = lists_ != nullptr && open_.size() == 1 && open_.back()->is_object();
    const bool classes = top && key_ == "classes", counts = top && key_ == "class_counts";
    open_.push_back(place(nlohmann::json::array()));
    if (classes) list_ = List::classes, lists_->classes.clear();
    if (counts) list_ = List::counts, lists_->class_counts.clear();
    return true;
  }
  bool end_array() override {
    if (inside_bad_ > 0) return --inside_bad_, true;
    list_ = List::none;
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

  nlohmann::json root;
  bool twice = false;

 private:
  enum class List { none, classes, counts };

  // An entry of a long list that is no text or number: it is noted, and left out.
  bool bad_entry() {
    if (list_ == List::none) return false;
    (list_ == List::classes ? lists_->are_valid : lists_->counts_are_valid) = false;
    ++inside_bad_;
    return true;
  }
  template <class Value>
  bool add(Value&& value) {
    if (list_ != List::none) {
      if (inside_bad_ == 0) (list_ == List::classes ? lists_->are_valid : lists_->counts_are_valid) = false;
      return true;
    }
    place(nlohmann::json(std::forward<Value>(value)));
    return true;
  }
  template <class Number>
  bool add_number(Number value) {
    if (list_ != List::counts || inside_bad_ > 0) return add(value);
    const auto count = static_cast<double>(value);
    if (!(count > 0)) lists_->counts_are_valid = false;
    lists_->class_counts.push_back(count);
    return true;
  }
  nlohmann::json* place(nlohmann::json&& value) {
    if (open_.empty()) return &(root = std::move(value));
    nlohmann::json& in = *open_.back();
    if (in.is_object()) return &(in[key_] = std::move(value));
    in.push_back(std::move(value));
    return &in.back();
  }

  LongLists* lists_;
  List list_ = List::none;
  std::size_t inside_bad_ = 0;  // open lists and objects within a long list
  std::vector<nlohmann::json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
  std::string key_;
};

}  // namespace

nlohmann::json parse_json_once(const std::string& text, bool* twice, LongLists* lists) {
  // The parser would stop at a zero byte and ignore the rest.
  if (text.find('\0') != std::string::npos || nested_too_deeply(text))
    return nlohmann::json(nlohmann::json::value_t::discarded);
  Builder builder(lists);
  if (!nlohmann::json::sax_parse(text, &builder)) return nlohmann::json(nlohmann::json::value_t::discarded);
  *twice |= builder.twice;
  return std::move(builder.root);
}

// Piece by piece: a copy of metadata of millions of names is not needed. Pieces end where a character does.
void JsonText::append_string(std::string& to, const std::string& text) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  to += '"';
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.size(), at + kPiece);
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
    const std::string piece = nlohmann::json(text.substr(at, end - at))
                                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    to.append(piece, 1, piece.size() - 2);
    at = end;
  }
  to += '"';
}

}  // namespace truemax

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/dense_array.hpp"
#include "data/names.hpp"
#include "data/reading_memory.hpp"
#include "data/sniff.hpp"

namespace truemax {
namespace {

template <class T>
T item_at(const char* from, bool swapped) {
  char bytes[sizeof(T)];
  std::copy_n(from, sizeof(T), bytes);
  if (swapped) std::reverse(bytes, bytes + sizeof(T));
  T item;
  std::memcpy(&item, bytes, sizeof(T));
  return item;
}

template <class T>
void decode_as(const DenseHeader& header, const char* from, std::size_t count, double* to) {
  for (std::size_t i = 0; i < count; ++i)
    to[i] = static_cast<double>(item_at<T>(from + i * sizeof(T), header.swapped));
}

class LabelReader {
 public:
  LabelReader(std::string name, const DenseHeader& header, const std::shared_ptr<MemoryBudget>& memory)
      : name_(std::move(name)), header_(header), charge_(memory), name_charge_(memory) {}

  // Charges the memory that `count` more labels and names may take.
  void make_room(std::size_t count) {
    grow(label_, count, charge_);
    const std::size_t most = header_.is_text() ? header_.item_bytes : 20;
    name_charge_.set(names_.bytes_with(count, most > 15 ? count * (most + 1) : 0));
  }
  std::size_t rows() const { return label_.size(); }

  void read_item(const char* item) {
    ++row_;
    switch (header_.element) {
      case Element::bytes:
        return add({item, text_length(item)});
      case Element::unicode:
        return add(utf8(item));
      case Element::u64:
        return add(fmt::format("{}", item_at<std::uint64_t>(item, header_.swapped)));
      case Element::i64:
        return add(fmt::format("{}", item_at<std::int64_t>(item, header_.swapped)));
      default:
        break;
    }
    double number = 0;
    decode_items(header_, item, 1, &number);
    if (!std::isfinite(number) || number != std::floor(number))
      fail(fmt::format("label {} is not a whole number", number), "save labels as whole numbers or text");
    add(fmt::format("{:.0f}", number == 0 ? 0.0 : number));  // no "-0"
  }

  DenseLabels take() {
    DenseLabels labels{std::move(label_), names_.take_names(), std::move(charge_)};
    const std::uint64_t bytes = name_charge_.bytes();
    name_charge_.release();
    labels.memory.add(bytes);
    return labels;
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& advice) const {
    throw file_error(name_, 0, fmt::format("row {}: {}", row_, found), advice);
  }

  void add(std::string_view name) {
    if (name.empty()) fail("empty label", "give every row a label");
    if (!is_utf8(name)) fail("label that is not UTF-8 text", "save labels as UTF-8 or as Unicode strings");
    if (printable(name) != name)
      fail(fmt::format("label {} with a control character", in_quotes(name)), "save plain names as labels");
    label_.push_back(names_.add(name));
  }

  // Text is padded with trailing NULs.
  std::size_t text_length(const char* item) const {
    std::size_t length = header_.item_bytes;
    while (length > 0 && item[length - 1] == '\0') --length;
    return length;
  }

  std::string utf8(const char* item) const {
    std::string out;
    const std::size_t used = (text_length(item) + 3) / 4;
    for (std::size_t i = 0; i < header_.item_bytes / 4; ++i) {
      const auto c = item_at<std::uint32_t>(item + 4 * i, header_.swapped);
      if (c == 0 && i >= used) break;
      append_utf8(c, out);
    }
    while (!out.empty() && out.back() == '\0') out.pop_back();
    return out;
  }

  void append_utf8(std::uint32_t c, std::string& out) const {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
      fail(fmt::format("label with the impossible character {:#x}", c), "save labels as valid Unicode");
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xC0 | (c >> 6));
      tail(0);
    } else if (c < 0x10000) {
      out += static_cast<char>(0xE0 | (c >> 12));
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xF0 | (c >> 18));
      tail(12), tail(6), tail(0);
    }
  }

  std::string name_;
  const DenseHeader& header_;
  std::uint64_t row_ = 0;
  std::vector<std::uint32_t> label_;
  NameStore names_;
  MemoryCharge charge_, name_charge_;
};

Format format_of_labels(Input& input) {
  char head[8];
  const std::size_t size = input.read(head, sizeof head);
  input.unread({head, size});
  if (looks_like_npy({head, size})) return Format::npy;
  if (looks_like_idx({head, size})) return Format::idx;
  throw file_error(input.name(), 0,
                   fmt::format("is neither idx nor npy: it begins with {}", in_quotes({head, size})),
                   "give the labels with --label-file");
}

}  // namespace

void decode_items(const DenseHeader& header, const char* from, std::size_t count, double* to) {
  switch (header.element) {
    case Element::u8:
      return decode_as<std::uint8_t>(header, from, count, to);
    case Element::i8:
      return decode_as<std::int8_t>(header, from, count, to);
    case Element::u16:
      return decode_as<std::uint16_t>(header, from, count, to);
    case Element::i16:
      return decode_as<std::int16_t>(header, from, count, to);
    case Element::u32:
      return decode_as<std::uint32_t>(header, from, count, to);
    case Element::i32:
      return decode_as<std::int32_t>(header, from, count, to);
    case Element::u64:
      return decode_as<std::uint64_t>(header, from, count, to);
    case Element::i64:
      return decode_as<std::int64_t>(header, from, count, to);
    case Element::f32:
      return decode_as<float>(header, from, count, to);
    case Element::f64:
      return decode_as<double>(header, from, count, to);
    case Element::truth:
      for (std::size_t i = 0; i < count; ++i) to[i] = from[i] != 0 ? 1 : 0;
      return;
    case Element::bytes:
    case Element::unicode:
      return;
  }
}

DenseLabels read_dense_labels(const std::string& path, const std::shared_ptr<MemoryBudget>& memory) {
  Input input(path, memory);
  const DenseHeader header = read_dense_header(input, format_of_labels(input));
  if (header.columns() != 1)
    throw file_error(input.name(), 0, fmt::format("labels of shape {}", header.shape_text()),
                     "labels have one number or text a row: shape (N,) or (N, 1)");
  LabelReader reader(input.name(), header, memory);
  std::vector<char> buffer(header.item_bytes * std::max<std::size_t>(1, (64 << 10) / header.item_bytes));
  std::uint64_t left = header.rows();
  while (left > 0) {
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size() / header.item_bytes));
    const std::size_t got = input.read(buffer.data(), count * header.item_bytes) / header.item_bytes;
    try {
      reader.make_room(got);
    } catch (const OverBudget& over) {
      throw memory_error(over, input.name(), 0, counted(reader.rows(), "label"), kMoreMemory);
    }
    for (std::size_t i = 0; i < got; ++i) reader.read_item(buffer.data() + i * header.item_bytes);
    left -= got;
    if (got < count)
      throw file_error(
          input.name(), 0,
          fmt::format("ends after {} of its {} labels (truncated)", header.rows() - left, header.rows()),
          "check that the file is complete");
  }
  char more = 0;
  if (input.read(&more, 1) > 0)
    throw file_error(input.name(), 0, fmt::format("has more data after its {} labels", header.rows()),
                     "check that the file is one array");
  return reader.take();
}

}  // namespace truemax

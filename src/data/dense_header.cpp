#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/dense_array.hpp"
#include "data/number.hpp"
#include "data/sniff.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kMostItemBytes = 1 << 20;
constexpr const char* kCheckFile = "check that the file is complete";

void read_exactly(Input& input, char* to, std::size_t size, const char* format) {
  if (input.read(to, size) < size)
    throw file_error(input.name(), 0, fmt::format("ends inside its {} header (truncated)", format),
                     kCheckFile);
}

// ---- idx: two zero bytes, the type, the number of dimensions, each dimension as 4 bytes, big endian.

DenseHeader read_idx_header(Input& input) {
  char magic[4];
  read_exactly(input, magic, sizeof magic, "idx");
  if (!looks_like_idx({magic, 4}))
    throw file_error(input.name(), 0, fmt::format("is not idx: it begins with {}", in_quotes({magic, 4})),
                     "give an idx file, or the format with --format");
  DenseHeader header;
  switch (magic[2]) {
    case 0x08:
      header.element = Element::u8;
      header.item_bytes = 1;
      break;
    case 0x09:
      header.element = Element::i8;
      header.item_bytes = 1;
      break;
    case 0x0b:
      header.element = Element::i16;
      header.item_bytes = 2;
      break;
    case 0x0c:
      header.element = Element::i32;
      header.item_bytes = 4;
      break;
    case 0x0d:
      header.element = Element::f32;
      header.item_bytes = 4;
      break;
    default:
      header.element = Element::f64;
      header.item_bytes = 8;
      break;
  }
  header.swapped = std::endian::native == std::endian::little;
  for (int i = 0; i < magic[3]; ++i) {
    unsigned char bytes[4];
    read_exactly(input, reinterpret_cast<char*>(bytes), sizeof bytes, "idx");
    header.shape.push_back((std::uint64_t{bytes[0]} << 24) | (std::uint64_t{bytes[1]} << 16) |
                           (std::uint64_t{bytes[2]} << 8) | bytes[3]);
  }
  return header;
}

// ---- npy: "\x93NUMPY", version, length of a Python dictionary with descr, fortran_order and shape.

class NpyHeaderReader {
 public:
  explicit NpyHeaderReader(Input& input) : input_(input) {}

  DenseHeader read() {
    read_dictionary();
    DenseHeader header;
    read_type(header);
    const std::string_view order = value_of("fortran_order");
    if (order.substr(0, 4) == "True")
      header.column_major = true;
    else if (order.substr(0, 5) != "False")
      fail("fortran_order is neither True nor False");
    read_shape(header);
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw file_error(input_.name(), 0, fmt::format("npy header: {}", found),
                     "save a plain array of numbers by numpy.save");
  }

  void read_dictionary() {
    char head[8];
    read_exactly(input_, head, sizeof head, "npy");
    if (!looks_like_npy({head, 8}))
      throw file_error(input_.name(), 0, fmt::format("is not npy: it begins with {}", in_quotes({head, 6})),
                       "give an npy file, or the format with --format");
    if (head[6] < 1 || head[6] > 3) fail(fmt::format("version {} is not known", static_cast<int>(head[6])));
    unsigned char bytes[4] = {0, 0, 0, 0};
    read_exactly(input_, reinterpret_cast<char*>(bytes), head[6] == 1 ? 2 : 4, "npy");
    const std::size_t length = bytes[0] | (static_cast<std::size_t>(bytes[1]) << 8) |
                               (static_cast<std::size_t>(bytes[2]) << 16) |
                               (static_cast<std::size_t>(bytes[3]) << 24);
    if (length > kMostItemBytes) fail(fmt::format("its length of {} bytes is too large", length));
    dictionary_.resize(length);
    read_exactly(input_, dictionary_.data(), length, "npy");
  }

  // The text after 'key':, without leading blanks.
  std::string_view value_of(std::string_view key) const {
    for (const char quote : {'\'', '"'}) {
      const std::string pattern = fmt::format("{}{}{}", quote, key, quote);
      const std::size_t at = dictionary_.find(pattern);
      if (at == std::string::npos) continue;
      const std::size_t begin = dictionary_.find_first_not_of(" :", at + pattern.size());
      if (begin != std::string::npos) return std::string_view(dictionary_).substr(begin);
    }
    fail(fmt::format("no '{}' in {}", key, in_quotes(dictionary_)));
  }

  void read_type(DenseHeader& header) const {
    std::string_view text = value_of("descr");
    if (text.front() != '\'' && text.front() != '"') fail("the array has fields");
    const char quote = text.front();
    text.remove_prefix(1);
    text = text.substr(0, text.find(quote));
    const std::string shown = in_quotes(text);
    char order = '=';
    if (!text.empty() && std::string_view("<>=|").find(text.front()) != std::string_view::npos) {
      order = text.front();
      text.remove_prefix(1);
    }
    if (text.empty()) fail(fmt::format("item type {} is not known", shown));
    const char kind = text.front();
    text.remove_prefix(1);
    std::uint64_t size = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), size);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size())
      fail(fmt::format("item type {} is not known", shown));
    set_type(header, kind, size, shown);
    const bool little = std::endian::native == std::endian::little;
    header.swapped = (order == '>' && little) || (order == '<' && !little);
  }

  void set_type(DenseHeader& header, char kind, std::uint64_t size, const std::string& shown) const {
    struct Known {
      std::uint64_t size;
      char kind;
      Element element;
    };
    static constexpr Known kKnown[] = {
        {1, 'u', Element::u8},  {1, 'i', Element::i8},  {2, 'u', Element::u16},  {2, 'i', Element::i16},
        {4, 'u', Element::u32}, {4, 'i', Element::i32}, {8, 'u', Element::u64},  {8, 'i', Element::i64},
        {4, 'f', Element::f32}, {8, 'f', Element::f64}, {1, 'b', Element::truth}};
    for (const Known& known : kKnown) {
      if (known.kind != kind || known.size != size) continue;
      header.element = known.element;
      header.item_bytes = size;
      return;
    }
    const bool is_text = (kind == 'S' || kind == 'a' || kind == 'U') && size > 0 && size <= kMostItemBytes;
    if (!is_text)
      fail(fmt::format("item type {} is not a number of 1 to 8 bytes (f2 and complex are not read)", shown));
    header.element = kind == 'U' ? Element::unicode : Element::bytes;
    header.item_bytes = kind == 'U' ? 4 * size : size;
  }

  void read_shape(DenseHeader& header) const {
    std::string_view text = value_of("shape");
    if (text.front() != '(') fail("shape is not in parentheses");
    text.remove_prefix(1);
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
      if (text.empty()) fail("shape has no end");
      if (text.front() == ')') return;
      std::uint64_t size = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), size);
      if (read.ec != std::errc()) fail(fmt::format("shape {} is not whole numbers", in_quotes(text)));
      header.shape.push_back(size);
      text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    }
  }

  Input& input_;
  std::string dictionary_;
};

void check_shape(const Input& input, const DenseHeader& header, Format format) {
  const std::string shape = header.shape_text();
  if (header.shape.empty())
    throw file_error(input.name(), 0, "a single number, not an array of rows",
                     "save an array of shape (N, D)");
  if (format == Format::npy && header.shape.size() > 2)
    throw file_error(input.name(), 0, fmt::format("shape {} has {} dimensions", shape, header.shape.size()),
                     "save an array of shape (N, D)");
  std::uint64_t bytes = header.item_bytes;
  for (const std::uint64_t size : header.shape) {
    if (size == 0)
      throw file_error(input.name(), 0, fmt::format("shape {} is empty", shape), "name a file with data");
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size)
      throw file_error(input.name(), 0, fmt::format("shape {} is too large", shape), kCheckFile);
    bytes *= size;
  }
}

}  // namespace

std::uint64_t DenseHeader::columns() const {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

std::string DenseHeader::shape_text() const {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

DenseHeader read_dense_header(Input& input, Format format) {
  DenseHeader header = format == Format::idx ? read_idx_header(input) : NpyHeaderReader(input).read();
  check_shape(input, header, format);
  return header;
}

}  // namespace truemax

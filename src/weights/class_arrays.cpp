#include "weights/class_arrays.hpp"

#include <algorithm>

#include "ranks/ranks.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;  // bytes of a message

template <class Piece>
void each_piece(std::uint64_t begin, std::uint64_t end, Piece&& piece) {
  for (std::uint64_t at = begin; at < end; at += kPiece) piece(at, std::min(kPiece, end - at));
}

// The bytes of a rank's blocks.
class Part {
 public:
  Part(const BlockShare& share, std::size_t rank, std::uint64_t block_bytes, std::uint64_t all_bytes) {
    const std::size_t blocks = (share.classes_of(rank) + kBlockClasses - 1) / kBlockClasses;
    bytes_ = blocks * block_bytes;
    const std::size_t last = share.all_blocks() - 1;
    if (share.owner(last) == rank) bytes_ -= share.all_blocks() * block_bytes - all_bytes;
  }
  std::uint64_t up_to(std::uint64_t at) const { return std::min(at, bytes_); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
};

// The blocks of a round, one of each rank, lie side by side in the whole: rounds are fetched in turn from all
// ranks, several at once if blocks are small.
class Gathering {
 public:
  Gathering(StateSink& to, const BlockShare& share, std::uint64_t block_bytes, std::uint64_t all_bytes,
            const ReadOwn& own)
      : to_(to), share_(share), block_bytes_(block_bytes), all_bytes_(all_bytes), own_(own) {
    for (std::size_t r = 0; r < share.ranks(); ++r) parts_.emplace_back(share, r, block_bytes, all_bytes);
  }

  void run() {
    const std::uint64_t together = std::max<std::uint64_t>(1, kPiece / (block_bytes_ * share_.ranks()));
    const std::uint64_t rounds = (share_.all_blocks() + share_.ranks() - 1) / share_.ranks();
    for (std::uint64_t first = 0; first < rounds; first += together) {
      const std::uint64_t end = std::min(rounds, first + together);
      if (!ranks().first())
        send(first, end);
      else if (block_bytes_ > kPiece)
        write_in_pieces(first);
      else
        write(first, end);
    }
  }

 private:
  void send(std::uint64_t first, std::uint64_t end) {
    const Part& part = parts_[ranks().rank()];
    each_piece(part.up_to(first * block_bytes_), part.up_to(end * block_bytes_),
               [&](std::uint64_t at, std::uint64_t size) {
                 piece_.resize(size);
                 own_(at, piece_);
                 ranks().send(std::as_bytes(std::span(piece_)), 0);
               });
  }
  // To a place for it, from the rank that has it.
  void fetch(std::size_t rank, std::uint64_t at, std::span<char> to) {
    if (rank == 0)
      own_(at, to);
    else
      ranks().receive(std::as_writable_bytes(to), rank);
  }
  std::uint64_t bytes_of(std::uint64_t block) const {
    return std::min(block_bytes_, all_bytes_ - block * block_bytes_);
  }

  void write(std::uint64_t first, std::uint64_t end) {
    arrived_.resize(share_.ranks());
    for (std::size_t r = 0; r < share_.ranks(); ++r) {
      const std::uint64_t from = parts_[r].up_to(first * block_bytes_);
      arrived_[r].resize(parts_[r].up_to(end * block_bytes_) - from);
      each_piece(0, arrived_[r].size(), [&](std::uint64_t at, std::uint64_t size) {
        fetch(r, from + at, std::span(arrived_[r]).subspan(at, size));
      });
    }
    const std::uint64_t blocks = std::min<std::uint64_t>(share_.all_blocks(), end * share_.ranks());
    for (std::uint64_t b = first * share_.ranks(); b < blocks; ++b)
      to_.write(std::span<const char>(arrived_[share_.owner(b)])
                    .subspan((share_.local(b) - first) * block_bytes_, bytes_of(b)));
  }

  // A round of blocks that are too large to be held.
  void write_in_pieces(std::uint64_t round) {
    const std::uint64_t blocks = std::min<std::uint64_t>(share_.all_blocks(), (round + 1) * share_.ranks());
    for (std::uint64_t b = round * share_.ranks(); b < blocks; ++b)
      each_piece(0, bytes_of(b), [&](std::uint64_t at, std::uint64_t size) {
        piece_.resize(size);
        fetch(share_.owner(b), round * block_bytes_ + at, piece_);
        to_.write(piece_);
      });
  }

  StateSink& to_;
  const BlockShare& share_;
  std::uint64_t block_bytes_, all_bytes_;
  const ReadOwn& own_;
  std::vector<Part> parts_;  // by rank
  std::vector<char> piece_;
  std::vector<std::vector<char>> arrived_;  // by rank
};

}  // namespace

void put_blocks(StateSink& to, const BlockShare* share, std::uint64_t block_bytes, std::uint64_t all_bytes,
                const ReadOwn& own) {
  if (share != nullptr) return Gathering(to, *share, block_bytes, all_bytes, own).run();
  std::vector<char> piece;
  each_piece(0, all_bytes, [&](std::uint64_t at, std::uint64_t size) {
    piece.resize(size);
    own(at, piece);
    to.write(piece);
  });
}

void get_blocks(StateSource& from, const BlockShare* share, std::uint64_t block_bytes,
                std::uint64_t all_bytes, const StoreOwn& own,
                const std::function<void(std::span<const char>)>& checked) {
  std::vector<char> piece;
  const auto read = [&](std::uint64_t begin, std::uint64_t end, const auto& store) {
    each_piece(begin, end, [&](std::uint64_t at, std::uint64_t size) {
      piece.resize(size);
      from.read(piece);
      if (checked) checked(piece);
      store(at, std::span<const char>(piece));
    });
  };
  if (share == nullptr) return read(0, all_bytes, own);
  for (std::uint64_t b = 0; b < share->all_blocks() && b * block_bytes < all_bytes; ++b) {
    const std::uint64_t bytes = std::min(block_bytes, all_bytes - b * block_bytes);
    const std::uint64_t begin = share->local(b) * block_bytes;
    if (share->owns(b))
      read(begin, begin + bytes, own);
    else
      read(0, bytes, [](std::uint64_t, std::span<const char>) {});
  }
}

}  // namespace truemax

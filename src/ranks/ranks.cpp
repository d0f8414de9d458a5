#include "ranks/ranks.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace truemax {
namespace {

Ranks*& current() {
  static OneRank alone;
  thread_local Ranks* ranks = &alone;
  return ranks;
}

}  // namespace

std::string Ranks::broadcast_text(std::string text, std::size_t from) {
  text.resize(broadcast_value<std::uint64_t>(text.size(), from));
  broadcast(std::as_writable_bytes(std::span(text)), from);
  return text;
}

void Ranks::only_first(const std::function<void()>& work) {
  std::string error;
  bool failed = false;
  if (first()) try {
      work();
    } catch (const UserError& failure) {
      if (alone()) throw;
      error = failure.what(), failed = true;
    }
  if (alone() || !broadcast_value(failed)) return;
  throw UserError(broadcast_text(std::move(error)));
}

void Ranks::require_same(const std::string& what, const std::string& text) {
  const std::byte differs{static_cast<unsigned char>(broadcast_text(text) == text ? 0 : 1)};
  std::vector<std::byte> all(size());
  gather_everywhere({&differs, 1}, all);
  std::string others;
  for (std::size_t r = 0; r < size(); ++r)
    if (all[r] != std::byte{0}) others += (others.empty() ? "" : ", ") + std::to_string(r);
  if (!others.empty())
    throw UserError(
        "all ranks must have the same " + what + ", but those of rank " + others +
        " differ from those of rank 0; start every rank with the same program, options and files");
}

void OneRank::gather_everywhere(std::span<const std::byte> own, std::span<std::byte> all) {
  std::copy(own.begin(), own.end(), all.begin());
}

void OneRank::send(std::span<const std::byte> /*bytes*/, std::size_t /*to*/) {
  throw std::logic_error("there is no other rank to send to");
}

void OneRank::receive(std::span<std::byte> /*bytes*/, std::size_t /*from*/) {
  throw std::logic_error("there is no other rank to receive from");
}

Ranks& ranks() {
  return *current();
}

UseRanks::UseRanks(Ranks& ranks) : before_(current()) {
  current() = &ranks;
}

UseRanks::~UseRanks() {
  current() = before_;
}

}  // namespace truemax

#include "ranks/ranks.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "ranks/together.hpp"

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

namespace {

// Name and value of each, with an end that neither contains.
std::string one_text(const std::vector<Named>& all) {
  std::string text;
  for (const Named& n : all) text += n.name + '\0' + n.value + '\0';
  return text;
}

std::string shown(const std::string& value) {
  return value.empty() ? "missing" : value;
}

}  // namespace

void Ranks::require_same(const std::string& what, const std::vector<Named>& own) {
  if (alone()) return;
  std::string first = broadcast_text(one_text(own));
  together(*this, [&] {
    const auto next = [&] {
      const std::size_t end = first.find('\0');
      std::string word = first.substr(0, end);
      first.erase(0, end == std::string::npos ? end : end + 1);
      return word;
    };
    std::string differ;
    for (const Named& here : own) {
      const std::string name = next(), value = next();
      if (name == here.name && value == here.value) continue;
      if (!differ.empty()) differ += ", ";
      if (name != here.name) {
        differ += here.name;
        break;
      }
      differ += name + " is " + shown(value) + " on rank 0 and " + shown(here.value) + " on rank " +
                std::to_string(rank()) + (here.where.empty() ? "" : " (" + here.where + ")");
    }
    if (differ.empty()) return;
    throw UserError("all ranks must have the same " + what + ", but " + differ +
                    "; start every rank with the same program, options and files");
  });
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

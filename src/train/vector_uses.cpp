#include "train/vector_uses.hpp"

namespace truemax {

// The vectors of a bucket, each with its uses of all lists in a chain.
void VectorUses::join(std::size_t bucket, std::size_t lists, std::vector<Moved>& moved) {
  std::uint32_t* const places = place_.data() + bucket * of_bucket_;
  const auto place_of = [&](FeatureId f) -> std::uint32_t& { return places[f / buckets_]; };
  moved.clear();
  for (std::size_t list = 0; list < lists; ++list) {
    const std::uint32_t* const end = ends_.data() + list * buckets_ + bucket;
    Added* const start = start_of(list);
    for (Added* a = start + (bucket > 0 ? end[-1] : 0); a != start + *end; ++a) {
      std::uint32_t& place = place_of(a->vector);
      if (place == kNone) {
        place = static_cast<std::uint32_t>(moved.size());
        moved.push_back({a->vector, a, a});
      } else {
        moved[place].last = moved[place].last->next = a;
      }
    }
  }
  for (const Moved& m : moved) place_of(m.vector) = kNone;
}

}  // namespace truemax

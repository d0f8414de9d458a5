// The products of bytes where the processor has an instruction for them (AVX-512 VNNI), which Highway 1.0
// does not offer. weights/byte_classes.cpp has the same for all other processors, with the same sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace truemax {

// Whether vnni_sums() may be called: a property of the processor, unless a test says no.
bool has_byte_products();
void use_byte_products(bool allowed);  // for tests

// sums [count][16]: of row r and class i, over the groups, of code[group][i] . packed[r][group]. codes: 64
// bytes for each group. group null: group g of the codes meets number g of the row.
void vnni_sums(const std::uint8_t* codes, const std::int32_t* const* packed, std::size_t count,
               const std::uint32_t* group, std::size_t groups, std::int32_t* sums);

}  // namespace truemax

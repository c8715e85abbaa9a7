// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/statistics/statistics_record.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "quire/dtype.h"
#include "quire/v1/extras.pb.h"

namespace quire::worker {
namespace {

std::string ToF16(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(uint16_t), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = FloatToF16(values[i]);
    std::memcpy(bytes.data() + i * sizeof half, &half, sizeof half);
  }
  return bytes;
}

/// `count` values; none when the bytes have another number.
std::vector<float> FromF16(const std::string& bytes, size_t count) {
  std::vector<float> values;
  if (bytes.size() != count * sizeof(uint16_t)) return values;
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * sizeof half, sizeof half);
    values.push_back(F16ToFloat(half));
  }
  return values;
}

StatusOr<LayerStatistics> DecodeLayer(const v1::SamKvLayerStatistics& proto,
                                      const SamKvShape& shape, const BlockSplit& split) {
  LayerStatistics layer;
  layer.local_query = FromF16(proto.local_query(), size_t{shape.num_query_heads} * shape.head_dim);
  if (layer.local_query.empty()) return DataLoss("its vectors have another shape");
  const auto middle = static_cast<int>(split.middle_blocks());
  if (proto.exponents_size() != middle || proto.attentions_size() != middle) {
    return DataLoss("it has ", proto.exponents_size(), " blocks of ", middle);
  }
  for (int i = 0; i < middle; ++i) {
    layer.middle.push_back({proto.exponents(i), proto.attentions(i)});
  }
  for (const uint32_t token : proto.outlier_tokens()) {
    const bool follows = layer.outlier_tokens.empty() || layer.outlier_tokens.back() < token;
    if (token >= split.tokens || !split.IsMiddle(split.BlockOf(token)) || !follows) {
      return DataLoss("token ", token, " is no middle token in order");
    }
    layer.outlier_tokens.push_back(token);
  }
  RankMiddle(&layer);
  return layer;
}

}  // namespace

std::string EncodeStatistics(const DocumentStatistics& statistics) {
  v1::SamKvStatistics proto;
  proto.set_tokens(statistics.split.tokens);
  proto.set_block_tokens(statistics.split.block_tokens);
  for (const LayerStatistics& layer : statistics.layers) {
    v1::SamKvLayerStatistics* const out = proto.add_layers();
    out->set_local_query(ToF16(layer.local_query));
    for (const BlockImportance& block : layer.middle) {
      out->add_exponents(block.exponent);
      out->add_attentions(block.attention);
    }
    out->mutable_outlier_tokens()->Add(layer.outlier_tokens.begin(), layer.outlier_tokens.end());
  }
  return proto.SerializeAsString();
}

StatusOr<DocumentStatistics> DecodeStatistics(std::string_view bytes, const SamKvShape& shape,
                                              uint64_t tokens) {
  v1::SamKvStatistics proto;
  const bool parsed = proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  const bool fits = proto.tokens() == tokens && tokens > 0 && proto.block_tokens() > 0 &&
                    static_cast<uint32_t>(proto.layers_size()) == shape.num_layers;
  if (!parsed || !fits) {
    return DataLoss("the extra ", kStatisticsExtra, " is of another document or model");
  }
  DocumentStatistics statistics;
  statistics.split = {.tokens = proto.tokens(), .block_tokens = proto.block_tokens()};
  for (const v1::SamKvLayerStatistics& layer : proto.layers()) {
    auto decoded = DecodeLayer(layer, shape, statistics.split);
    if (!decoded.ok()) return Annotate(decoded.status(), "the extra ", kStatisticsExtra);
    statistics.layers.push_back(*std::move(decoded));
  }
  return statistics;
}

std::string EncodeRepresentatives(const DocumentStatistics& statistics) {
  v1::InfLlmRepresentatives proto;
  proto.set_tokens(statistics.split.tokens);
  proto.set_block_tokens(statistics.split.block_tokens);
  for (const LayerStatistics& layer : statistics.layers) {
    proto.add_layers(ToF16(layer.representative_keys));
  }
  return proto.SerializeAsString();
}

Status DecodeRepresentatives(std::string_view bytes, const SamKvShape& shape,
                             DocumentStatistics* statistics) {
  v1::InfLlmRepresentatives proto;
  const BlockSplit& split = statistics->split;
  const bool parsed = proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!parsed || proto.tokens() != split.tokens || proto.block_tokens() != split.block_tokens ||
      static_cast<size_t>(proto.layers_size()) != statistics->layers.size()) {
    return DataLoss("the extra ", kRepresentativesExtra, " is of another document or model");
  }
  const size_t floats = size_t{split.middle_blocks()} * shape.num_kv_heads * shape.head_dim;
  for (int layer = 0; layer < proto.layers_size(); ++layer) {
    std::vector<float> keys = FromF16(proto.layers(layer), floats);
    if (keys.size() != floats) {
      return DataLoss("the extra ", kRepresentativesExtra, " has vectors of another shape");
    }
    statistics->layers[layer].representative_keys = std::move(keys);
  }
  return OkStatus();
}

}  // namespace quire::worker

// SPDX-License-Identifier: Apache-2.0
//
// KvSpec and RopeSpec for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "python/native/bind.h"
#include "python/native/errors.h"
#include "python/native/names.h"
#include "python/native/units.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

RopeSpec MakeRope(uint32_t rotary_dim, double theta, const std::string& scaling,
                  const std::string& state, bool interleaved, double factor, double low_freq_factor,
                  double high_freq_factor, double original_context, double beta_fast,
                  double beta_slow, double attention_factor, std::vector<double> pair_factors) {
  RopeSpec rope;
  rope.state = ValueOf(kRopeStatesByName, state, "state");
  rope.scaling = ValueOf(kRopeScalingsByName, scaling, "scaling");
  rope.interleaved = interleaved;
  rope.rotary_dim = rotary_dim;
  rope.theta = theta;
  rope.factor = factor;
  rope.low_freq_factor = low_freq_factor;
  rope.high_freq_factor = high_freq_factor;
  rope.original_context = original_context;
  rope.beta_fast = beta_fast;
  rope.beta_slow = beta_slow;
  rope.attention_factor = attention_factor;
  rope.pair_factors = std::move(pair_factors);
  return rope;
}

void SetWeightsHash(const nb::bytes& hash, KvSpec* spec) {
  if (hash.size() == 0) return;
  if (hash.size() != spec->weights_hash.size()) {
    throw StatusError(InvalidArgument("weights_hash has ", hash.size(), " bytes instead of 32"));
  }
  std::copy_n(static_cast<const uint8_t*>(hash.data()), hash.size(), spec->weights_hash.begin());
}

KvSpec MakeSpec(const std::string& model, uint32_t num_layers, uint32_t num_query_heads,
                uint32_t num_kv_heads, uint32_t head_dim, const std::string& dtype,
                const std::string& attention, uint32_t page_tokens, uint32_t segment_pages,
                const std::optional<RopeSpec>& rope, const nb::bytes& weights_hash,
                uint32_t latent_dim, uint32_t latent_rope_dim) {
  KvSpec spec;
  spec.model = model;
  spec.attention = ValueOf(kAttentionKindsByName, attention, "attention");
  spec.dtype = ValueOf(kDTypesByName, dtype, "dtype");
  spec.num_layers = num_layers;
  spec.num_query_heads = num_query_heads;
  spec.num_kv_heads = num_kv_heads;
  spec.head_dim = head_dim;
  spec.latent_dim = latent_dim;
  spec.latent_rope_dim = latent_rope_dim;
  spec.page_tokens = page_tokens;
  spec.segment_pages = segment_pages;
  if (rope) {
    spec.rope = *rope;
  } else {
    spec.rope.rotary_dim = spec.attention == AttentionKind::kMla ? latent_rope_dim : head_dim;
  }
  SetWeightsHash(weights_hash, &spec);
  if (const std::string problem = Problem(spec); !problem.empty()) {
    throw StatusError(InvalidArgument(problem));
  }
  return spec;
}

std::string Describe(const KvSpec& spec) {
  return "KvSpec(model='" + spec.model + "', num_layers=" + std::to_string(spec.num_layers) +
         ", num_kv_heads=" + std::to_string(spec.num_kv_heads) +
         ", head_dim=" + std::to_string(spec.head_dim) + ", dtype='" + Name(spec.dtype) +
         "', page_tokens=" + std::to_string(spec.page_tokens) +
         ", segment_pages=" + std::to_string(spec.segment_pages) + ")";
}

void BindRope(nb::module_& module) {
  nb::class_<RopeSpec>(module, "RopeSpec", "Rotation of keys by position.")
      .def(
          "__init__",
          [](RopeSpec* self, uint32_t rotary_dim, double theta, const std::string& scaling,
             const std::string& state, bool interleaved, double factor, double low_freq_factor,
             double high_freq_factor, double original_context, double beta_fast, double beta_slow,
             double attention_factor, std::vector<double> pair_factors) {
            new (self)
                RopeSpec(MakeRope(rotary_dim, theta, scaling, state, interleaved, factor,
                                  low_freq_factor, high_freq_factor, original_context, beta_fast,
                                  beta_slow, attention_factor, std::move(pair_factors)));
          },
          nb::kw_only(), nb::arg("rotary_dim"), nb::arg("theta") = 10000.0,
          nb::arg("scaling") = "none", nb::arg("state") = "post", nb::arg("interleaved") = false,
          nb::arg("factor") = 1.0, nb::arg("low_freq_factor") = 0.0,
          nb::arg("high_freq_factor") = 0.0, nb::arg("original_context") = 0.0,
          nb::arg("beta_fast") = 0.0, nb::arg("beta_slow") = 0.0, nb::arg("attention_factor") = 1.0,
          nb::arg("pair_factors") = std::vector<double>())
      .def("__eq__", [](const RopeSpec& a, const RopeSpec& b) { return a == b; })
      .def_ro("rotary_dim", &RopeSpec::rotary_dim, "Leading channels of K that are rotated.")
      .def_ro("theta", &RopeSpec::theta, "Base of the frequencies.")
      .def_prop_ro("scaling",
                   [](const RopeSpec& rope) { return NameOf(kRopeScalingsByName, rope.scaling); });
}

}  // namespace

void BindSpec(nb::module_& module) {
  BindRope(module);
  nb::class_<KvSpec>(
      module, "KvSpec",
      "Everything that decides what the bytes of a KV page mean. Caches of different specs never\n"
      "meet. `dtype` is \"f32\", \"f16\" or \"bf16\"; `attention` is \"mha\", \"gqa\", \"mqa\" or "
      "\"mla\".\n`weights_hash` is the SHA-256 of the checkpoint, 32 bytes. Without `rope` every\n"
      "channel of K is rotated with base 10000.")
      .def(
          "__init__",
          [](KvSpec* self, const std::string& model, uint32_t num_layers, uint32_t num_query_heads,
             uint32_t num_kv_heads, uint32_t head_dim, const std::string& dtype,
             const std::string& attention, uint32_t page_tokens, uint32_t segment_pages,
             const std::optional<RopeSpec>& rope, const nb::bytes& weights_hash,
             uint32_t latent_dim, uint32_t latent_rope_dim) {
            new (self) KvSpec(MakeSpec(model, num_layers, num_query_heads, num_kv_heads, head_dim,
                                       dtype, attention, page_tokens, segment_pages, rope,
                                       weights_hash, latent_dim, latent_rope_dim));
          },
          nb::kw_only(), nb::arg("model"), nb::arg("num_layers"), nb::arg("num_query_heads"),
          nb::arg("num_kv_heads"), nb::arg("head_dim"), nb::arg("dtype") = "f16",
          nb::arg("attention") = "gqa", nb::arg("page_tokens") = 32, nb::arg("segment_pages") = 8,
          nb::arg("rope") = nb::none(), nb::arg("weights_hash") = nb::bytes("", 0),
          nb::arg("latent_dim") = 0, nb::arg("latent_rope_dim") = 0)
      .def("__eq__", [](const KvSpec& a, const KvSpec& b) { return a == b; })
      .def("__repr__", &Describe)
      .def_ro("model", &KvSpec::model, "Name of the model, for people.")
      .def_ro("num_layers", &KvSpec::num_layers, "Layers.")
      .def_ro("num_query_heads", &KvSpec::num_query_heads, "Query heads.")
      .def_ro("num_kv_heads", &KvSpec::num_kv_heads, "KV heads; 1 for MQA and MLA.")
      .def_ro("head_dim", &KvSpec::head_dim, "Elements of one K row; 0 for MLA.")
      .def_ro("page_tokens", &KvSpec::page_tokens, "Tokens of a page, p.")
      .def_ro("segment_pages", &KvSpec::segment_pages, "Pages of a segment, g.")
      .def_ro("rope", &KvSpec::rope, "Rotation of keys.")
      .def_prop_ro("dtype", [](const KvSpec& spec) { return NameOf(kDTypesByName, spec.dtype); })
      .def_prop_ro("attention",
                   [](const KvSpec& spec) { return NameOf(kAttentionKindsByName, spec.attention); })
      .def_prop_ro("weights_hash",
                   [](const KvSpec& spec) {
                     return nb::bytes(spec.weights_hash.data(), spec.weights_hash.size());
                   })
      .def_prop_ro(
          "unit_shape", [](const KvSpec& spec) { return nb::tuple(nb::cast(UnitShapeOf(spec))); },
          nb::sig("def unit_shape(self) -> tuple[int, ...]"),
          "Shape of a unit: (2, page_tokens, head_dim).")
      .def_prop_ro(
          "unit_bytes", [](const KvSpec& spec) { return UnitBytes(spec); }, "Bytes of a unit.")
      .def_prop_ro(
          "fingerprint",
          [](const KvSpec& spec) {
            const SpecFingerprint print = Fingerprint(spec);
            return nb::bytes(print.data(), print.size());
          },
          "SHA-256 of every field, 32 bytes; part of the key of every segment.")
      .def("difference", &FirstDifference, nb::arg("other"),
           "The first field in which two specs differ; empty when they are equal.");
}

}  // namespace quire::python

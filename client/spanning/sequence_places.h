// SPDX-License-Identifier: Apache-2.0
//
// SequencePlaces: which node each member of a sequence lies on, and what its pages are called
// there. Members of one node keep their order. Pages of a node order there as in the sequence, and
// lists of a lane merge without a sort. Thread-safety: immutable.
#ifndef QUIRE_CLIENT_SPANNING_SEQUENCE_PLACES_H_
#define QUIRE_CLIENT_SPANNING_SEQUENCE_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quire/page_lists.h"
#include "quire/page_name.h"

namespace quire::internal {

class SequencePlaces {
 public:
  /// Members of the sequence that lie on one node.
  struct Fragment {
    std::string address;
    std::vector<uint32_t> members;  ///< Ascending.
  };

  SequencePlaces() = default;
  /// `addresses`: node of each member. Fragments are in the order of their first members.
  explicit SequencePlaces(std::span<const std::string> addresses);

  const std::vector<Fragment>& fragments() const { return fragments_; }
  bool spans() const { return fragments_.size() > 1; }
  size_t num_members() const { return members_.size(); }

  // The rest is for members that there are.
  size_t FragmentOf(uint32_t member) const { return members_[member].fragment; }
  /// Number of the member in its fragment.
  uint32_t LocalMember(uint32_t member) const { return members_[member].local; }
  /// Name of a page in its fragment.
  uint32_t LocalName(uint32_t name) const {
    return PageName(LocalMember(MemberOf(name)), PageOf(name));
  }
  /// Name in the sequence of a page of a fragment.
  uint32_t GlobalName(size_t fragment, uint32_t local) const {
    return PageName(fragments_[fragment].members[MemberOf(local)], PageOf(local));
  }
  /// True when `fragment` has the member of a page with this local name.
  bool HasLocal(size_t fragment, uint32_t local) const {
    return MemberOf(local) < fragments_[fragment].members.size();
  }

 private:
  struct Member {
    size_t fragment = 0;
    uint32_t local = 0;
  };
  std::vector<Fragment> fragments_;
  std::vector<Member> members_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SPANNING_SEQUENCE_PLACES_H_

// SPDX-License-Identifier: Apache-2.0
//
// ClusterPass: has nodes compare all documents with what they have, and waits until nothing is left
// to copy and to hand over. For commands. Thread-safety: none.
#ifndef QUIRE_APPS_QUIRE_CLUSTER_PASS_H_
#define QUIRE_APPS_QUIRE_CLUSTER_PASS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/kit/command.h"
#include "cluster/view/cluster_view.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "quire/v1/replica.pb.h"

namespace quire::cli {

class ClusterPass {
 public:
  /// `context` outlives the pass.
  explicit ClusterPass(const CommandContext* context) : context_(*context) {}

  /// Progress of one node. Errors: those of the call, naming the node.
  StatusOr<v1::ReplicaProgressReply> Ask(const cluster::Member& member) const;
  /// Waits until each member of `view` that serves has a view with its placement. Errors as Wait.
  Status AwaitView(const cluster::ClusterView& view) const;
  /// Begins a pass at each member of `view` that serves.
  Status Start(const cluster::ClusterView& view);
  /// Waits until the passes are over and nothing is pending. Says on stderr what is left, now and
  /// then. DEADLINE_EXCEEDED at the command's limit: the nodes go on by themselves.
  /// FAILED_PRECONDITION, with what is missing, when nothing moved for `patience`.
  Status Wait(Duration patience);
  /// Prints the work of each node, once Wait has returned.
  void Print() const;

 private:
  struct Node {
    cluster::Member member;
    v1::ReplicaProgressReply before, now;
  };
  static bool IsDone(const Node& node);
  Status CheckLimit() const;
  /// Numbers of what the nodes have done and have still to do. They stay while nothing moves.
  std::vector<uint64_t> Work() const;
  /// Why nothing moves, as far as the nodes and the view tell.
  Status Stuck(Duration patience) const;
  std::string Left(const Node& node) const;
  void SayLeft() const;

  const CommandContext& context_;
  std::vector<Node> nodes_;
  std::string shortfall_;  ///< Why documents have fewer owners than they should; empty if not.
};

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_CLUSTER_PASS_H_

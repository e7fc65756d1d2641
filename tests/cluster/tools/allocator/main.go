// Command allocator says of each claim that is allocated whether the allocator of Kubernetes would allocate it so.
//
// It reads one JSON object (cluster) on stdin and writes a list of verdicts to stdout. A claim is judged with all other
// claims as they are, and with its own status left out: the allocator gets to see those devices only that the claim has
// or that others hold, so that it finds the allocation of the claim or none. A claim with a request for all devices is
// judged with all devices.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Expressions whose compilation is kept.
const cacheEntries = 1000

type cluster struct {
	// Features are the names of the feature gates that are on besides those of beta.
	Features []string                     `json:"features"`
	Nodes    []*corev1.Node               `json:"nodes"`
	Classes  []*resourceapi.DeviceClass   `json:"classes"`
	Slices   []*resourceapi.ResourceSlice `json:"slices"`
	Claims   []*resourceapi.ResourceClaim `json:"claims"`
}

type verdict struct {
	Claim    string `json:"claim"` // namespace/name
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason,omitempty"`
}

// classes is a structured.DeviceClassLister.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("DeviceClass %s does not exist", name)
}

func main() {
	var given cluster
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Fprintf(os.Stderr, "stdin: %v\n", err)
		os.Exit(1)
	}
	verdicts := []verdict{}
	for _, claim := range given.Claims {
		if claim.Status.Allocation == nil {
			continue
		}
		reason := given.judge(claim)
		verdicts = append(verdicts, verdict{claim.Namespace + "/" + claim.Name, reason == "", reason})
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		fmt.Fprintf(os.Stderr, "stdout: %v\n", err)
		os.Exit(1)
	}
}

// judge returns why the claim would not be allocated as it is, or "". It has to be usable on each node of its selector.
func (c *cluster) judge(claim *resourceapi.ResourceClaim) string {
	nodes, err := c.nodesOf(claim.Status.Allocation)
	if err != nil {
		return err.Error()
	}
	if len(nodes) == 0 {
		return "no node matches the node selector of the allocation"
	}
	for _, node := range nodes {
		if reason := c.judgeOn(claim, node); reason != "" {
			return fmt.Sprintf("on node %s: %s", node.Name, reason)
		}
	}
	return ""
}

func (c *cluster) nodesOf(allocation *resourceapi.AllocationResult) ([]*corev1.Node, error) {
	if allocation.NodeSelector == nil {
		return c.Nodes, nil
	}
	selector, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("node selector of the allocation: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(node *corev1.Node) bool { return !selector.Match(node) }), nil
}

func (c *cluster) judgeOn(claim *resourceapi.ResourceClaim, node *corev1.Node) (reason string) {
	// The allocator of this version looks into a list with the number of another one, which may be too large.
	defer func() {
		if failure := recover(); failure != nil {
			reason = fmt.Sprintf("the allocator panicked: %v", failure)
		}
	}()
	own := results(claim)
	state := c.stateWithout(claim, own)
	visible := c.visible(claim, own, state.AllocatedDevices)
	features := c.features()
	cache := cel.NewCache(cacheEntries, cel.Features{EnableConsumableCapacity: features.ConsumableCapacity})
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, features, state, classes(c.Classes), visible, cache)
	if err != nil {
		return err.Error()
	}
	waiting := claim.DeepCopy()
	waiting.Status = resourceapi.ResourceClaimStatus{}
	found, err := allocator.Allocate(ctx, node, []*resourceapi.ResourceClaim{waiting})
	if err != nil {
		return err.Error()
	}
	if len(found) != 1 {
		return fmt.Sprintf("no allocation is found with %s", strings.Join(texts(own), ", "))
	}
	return difference(claim.Status.Allocation, &found[0])
}

// stateWithout is what all other claims have.
//
// A device of several claims counts as allocated where this claim has no part of it, for its counters are used up.
func (c *cluster) stateWithout(
	claim *resourceapi.ResourceClaim, own []resourceapi.DeviceRequestAllocationResult,
) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	mine := devices(own)
	for _, other := range c.Claims {
		if other.Namespace == claim.Namespace && other.Name == claim.Name {
			continue
		}
		for _, result := range results(other) {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			device := idOf(result)
			if result.ShareID == nil || !mine.Has(device) {
				state.AllocatedDevices.Insert(device)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, result.ShareID))
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
		}
	}
	return state
}

// visible is the slices with those devices only that the claim has, which come first, or that others hold.
//
// Admin access would take what others hold, so such claims see their own devices only.
func (c *cluster) visible(
	claim *resourceapi.ResourceClaim,
	own []resourceapi.DeviceRequestAllocationResult,
	held sets.Set[structured.DeviceID],
) []*resourceapi.ResourceSlice {
	all, admin := modes(claim)
	place := map[structured.DeviceID]int{}
	for i, result := range own {
		if _, found := place[idOf(result)]; !found {
			place[idOf(result)] = i - len(own)
		}
	}
	found := make([]*resourceapi.ResourceSlice, len(c.Slices))
	for i, slice := range c.Slices {
		found[i] = slice.DeepCopy()
		id := func(device resourceapi.Device) structured.DeviceID {
			return structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
		}
		if !all {
			found[i].Spec.Devices = slices.DeleteFunc(found[i].Spec.Devices, func(device resourceapi.Device) bool {
				_, mine := place[id(device)]
				return !mine && (admin || !held.Has(id(device)))
			})
		}
		slices.SortStableFunc(found[i].Spec.Devices, func(a, b resourceapi.Device) int {
			return cmp.Compare(place[id(a)], place[id(b)])
		})
	}
	return found
}

// features are those of beta, which are on in Kubernetes 1.34, and those of alpha that were given.
func (c *cluster) features() structured.Features {
	return structured.Features{
		AdminAccess:          true,
		ConsumableCapacity:   slices.Contains(c.Features, "DRAConsumableCapacity"),
		DeviceBinding:        slices.Contains(c.Features, "DRADeviceBindingConditions"),
		DeviceStatus:         true,
		DeviceTaints:         slices.Contains(c.Features, "DRADeviceTaints"),
		PartitionableDevices: slices.Contains(c.Features, "DRAPartitionableDevices"),
		PrioritizedList:      true,
	}
}

// modes returns whether the claim has a request for all devices, and one with admin access.
func modes(claim *resourceapi.ResourceClaim) (all, admin bool) {
	for _, request := range claim.Spec.Devices.Requests {
		if exactly := request.Exactly; exactly != nil {
			all = all || exactly.AllocationMode == resourceapi.DeviceAllocationModeAll
			admin = admin || exactly.AdminAccess != nil && *exactly.AdminAccess
		}
		for _, option := range request.FirstAvailable {
			all = all || option.AllocationMode == resourceapi.DeviceAllocationModeAll
		}
	}
	return all, admin
}

// difference returns in what the allocation of a claim differs from the one that was found, or "".
func difference(have, found *resourceapi.AllocationResult) string {
	mine, theirs := texts(have.Devices.Results), texts(found.Devices.Results)
	if !slices.Equal(mine, theirs) {
		return fmt.Sprintf("it has %s, and would get %s", strings.Join(mine, ", "), strings.Join(theirs, ", "))
	}
	if !equality.Semantic.DeepEqual(have.NodeSelector, found.NodeSelector) {
		return fmt.Sprintf("its node selector is %s, and would be %s", text(have.NodeSelector), text(found.NodeSelector))
	}
	if !equality.Semantic.DeepEqual(have.Devices.Config, found.Devices.Config) {
		return fmt.Sprintf("its config is %s, and would be %s", text(have.Devices.Config), text(found.Devices.Config))
	}
	return ""
}

// texts are all that counts of each result, in an order that does not depend on theirs. Ids of shares are random.
func texts(given []resourceapi.DeviceRequestAllocationResult) []string {
	found := make([]string, len(given))
	for i, result := range given {
		found[i] = fmt.Sprintf("%s of %s/%s", result.Device, result.Driver, result.Pool)
		found[i] += fmt.Sprintf(" for %s", result.Request)
		if result.AdminAccess != nil && *result.AdminAccess {
			found[i] += " with admin access"
		}
		if result.ShareID != nil {
			found[i] += " as a share"
		}
		names := sets.List(sets.KeySet(result.ConsumedCapacity))
		for _, name := range names {
			amount := result.ConsumedCapacity[name]
			found[i] += fmt.Sprintf(" with %s %s", amount.AsDec(), name)
		}
		for _, condition := range result.BindingConditions {
			found[i] += fmt.Sprintf(" once %s", condition)
		}
	}
	slices.Sort(found)
	return found
}

func text(content any) string {
	bytes, err := json.Marshal(content)
	if err != nil {
		return err.Error()
	}
	return string(bytes)
}

func results(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.Devices.Results
}

func devices(given []resourceapi.DeviceRequestAllocationResult) sets.Set[structured.DeviceID] {
	found := sets.New[structured.DeviceID]()
	for _, result := range given {
		found.Insert(idOf(result))
	}
	return found
}

func idOf(result resourceapi.DeviceRequestAllocationResult) structured.DeviceID {
	return structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
}

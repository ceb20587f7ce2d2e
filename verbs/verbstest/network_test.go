package verbstest_test

import (
	"os"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/internal/ownnet"
)

// Addresses and ports of these tests are nobody else's, but where a device of the machine is named.
func init() {
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), "device") }) {
		ownnet.Enter()
	}
}

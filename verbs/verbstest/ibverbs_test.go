//go:build ibverbs

package verbstest_test

import _ "github.com/sluice-rdma/sluice/verbs/ibverbs"

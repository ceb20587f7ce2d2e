package roce

import "testing"

// A processor with few of the instructions gets the same CRC.
func TestCRCOfLesserProcessors(t *testing.T) {
	fold, wide := hasFold, hasWide
	t.Cleanup(func() { hasFold, hasWide = fold, wide })
	hasWide = false
	t.Run("without AVX-512", checkCRC)
	hasFold = false
	t.Run("without VPCLMULQDQ", checkCRC)
}

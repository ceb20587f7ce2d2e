package ib

// WCStatus is the outcome of a work request (ibv_wc_status). The values are
// libibverbs'.
type WCStatus uint8

// Outcomes.
const (
	WCSuccess        WCStatus = 0
	WCLocLenErr      WCStatus = 1
	WCLocQPOpErr     WCStatus = 2
	WCLocProtErr     WCStatus = 4
	WCWRFlushErr     WCStatus = 5
	WCMWBindErr      WCStatus = 6
	WCBadRespErr     WCStatus = 7
	WCLocAccessErr   WCStatus = 8
	WCRemInvReqErr   WCStatus = 9
	WCRemAccessErr   WCStatus = 10
	WCRemOpErr       WCStatus = 11
	WCRetryExcErr    WCStatus = 12
	WCRNRRetryExcErr WCStatus = 13
	WCRemAbortErr    WCStatus = 16
	WCFatalErr       WCStatus = 19
	WCRespTimeoutErr WCStatus = 20
	WCGeneralErr     WCStatus = 21
)

var wcStatusNames = map[WCStatus]string{
	WCSuccess: "success", WCLocLenErr: "local length error", WCLocQPOpErr: "local QP operation error",
	WCLocProtErr: "local protection error", WCWRFlushErr: "work request flushed",
	WCMWBindErr: "memory window bind error", WCBadRespErr: "bad response error",
	WCLocAccessErr: "local access error", WCRemInvReqErr: "remote invalid request error",
	WCRemAccessErr: "remote access error", WCRemOpErr: "remote operation error",
	WCRetryExcErr: "transport retry counter exceeded", WCRNRRetryExcErr: "RNR retry counter exceeded",
	WCRemAbortErr: "aborted by the responder", WCFatalErr: "fatal error",
	WCRespTimeoutErr: "response timeout error", WCGeneralErr: "general error",
}

// Known reports whether the outcome is one of libibverbs'.
func (s WCStatus) Known() bool { return wcStatusNames[s] != "" }

// Error says the outcome in words, as ibv_wc_status_str does. An outcome is an error like
// syscall.Errno, WCSuccess too, so that errors.Is finds it in the error of a completion.
func (s WCStatus) Error() string { return name(wcStatusNames, s, "WCStatus") }

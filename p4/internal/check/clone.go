package check

import (
	"math/big"
	"reflect"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

var bigInt = reflect.TypeFor[*big.Int]()
var externDecl = reflect.TypeFor[*ast.ExternDecl]()

// clone copies a tree that was not checked yet. Types, big numbers and the
// back reference of a method to its extern stay shared.
func clone[T any](x T) T {
	return cloneValue(reflect.ValueOf(&x).Elem()).Interface().(T)
}

func cloneValue(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		n := reflect.New(v.Type()).Elem()
		n.Set(cloneValue(v.Elem()))
		return n
	case reflect.Pointer:
		if v.IsNil() || v.Type() == bigInt || v.Type() == externDecl || strings.HasSuffix(v.Type().Elem().PkgPath(), "p4/internal/types") {
			return v
		}
		n := reflect.New(v.Type().Elem())
		n.Elem().Set(cloneValue(v.Elem()))
		return n
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		n := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			n.Index(i).Set(cloneValue(v.Index(i)))
		}
		return n
	case reflect.Struct:
		n := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			n.Field(i).Set(cloneValue(v.Field(i)))
		}
		return n
	}
	return v
}

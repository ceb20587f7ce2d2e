// Package ast holds the nodes of a P4_16 program (language specification
// 1.2.5), as package parse makes them and package check completes them. Every
// node has its position.
//
// # What a checked tree promises
//
// check.Program fills in Program.Main and the fields that are marked
// "checked:". A program that passed has these properties.
//
//   - Instances. Program.Main is the package instance named main. The tree of
//     Instances below it has one node for every parser, control and extern
//     object of the running program. Each parser or control Instance has its
//     own copy of the declaration (Instance.Parser, Instance.Control), in which
//     the constructor's parameters stand for their arguments (Param.Bound) and
//     everything compile-time known is folded. Compile those copies; the
//     declarations in Program.Decls may have unbound constructor parameters.
//     C.apply(...) on the name of a control or parser makes an instance, too
//     (Call.Instance).
//   - Generics. Functions with type parameters are copied for every list of
//     type arguments: Call.Func is the copy, its body has concrete types.
//     Extern functions and methods are declared once; Call.TypeArgs holds the
//     types (inferred or written), BoundArg.Type each parameter's type.
//   - Expressions. Type() is never nil, and never a typedef name. Const() is
//     not nil if the value is compile-time known: test it first. An expression
//     of type int (types.Integer) always has a Const (a shift's right operand,
//     an index, a slice bound, a constructor's argument).
//   - Names. Ident.Decl is what the name refers to: *Param, *VarDecl,
//     *ConstDecl, *ForIn's *VarDecl, *ActionDecl, *TableDecl, *FunctionDecl,
//     *Instantiation, *ValueSetDecl, or a type's declaration.
//   - Casts. Implicit conversions are Cast nodes with Implicit set; the
//     operands of an arithmetic operator have the same type. List and
//     StructLit have the type that their context wants (struct, header, stack,
//     tuple) and one element for every field: the fields that "..." leaves out
//     are Dots nodes of the field's type, whose value is that type's default.
//     StructLit's fields stay in written order, with FieldInit.Index.
//   - Calls. Call.Kind says what is called; Call.Bound has one entry for every
//     parameter in the callee's order (named arguments sorted, default values
//     put in, @optional ones marked Omitted). Arguments for in and
//     directionless parameters have the parameter's type. Those for out and
//     inout are l-values or DontCare. Copy-in and copy-out order, and aliasing,
//     are the back end's (specification, 6.8).
//   - Members. Member.Sel says what .name is.
//   - Set expressions. Labels of select and keys of entries: KeySet lists have
//     as many elements as there are keys; each is Mask, Range, DontCare, an
//     Ident of a value set, or a value of the key's type.
//   - Lvalues are Ident, Member (field, next, last), Index, Slice.
package ast

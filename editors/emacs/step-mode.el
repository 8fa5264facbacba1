;;; step-mode.el --- Training recipes of stepc -*- lexical-binding: t -*-

;; SPDX-License-Identifier: Apache-2.0
;; Version: 0.1.0
;; Package-Requires: ((emacs "27.1"))
;; Keywords: languages

;;; Commentary:

;; Colours and indentation of `.step' files; all else comes from `stepc lsp', through Eglot (part of Emacs 29, on ELPA for
;; earlier ones) or lsp-mode.  With this folder in `load-path':
;;
;;   (require 'step-mode)
;;   (add-hook 'step-mode-hook #'eglot-ensure)

;;; Code:

(defgroup step nil
  "Training recipes of stepc."
  :group 'languages)

(defcustom step-server '("stepc" "lsp")
  "The language server and its arguments."
  :type '(repeat string))

(defcustom step-indent 2
  "Columns by which the inside of brackets is indented."
  :type 'natnum
  :safe #'natnump)

(defconst step-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?_ "_" table)
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?\" "\"" table)
    (modify-syntax-entry ?\\ "\\" table)
    (dolist (mark '(?= ?+ ?- ?% ?! ?< ?> ?& ?|))
      (modify-syntax-entry mark "." table))
    table))

(defconst step-font-lock-keywords
  (let ((word "\\([[:alpha:]_][[:alnum:]_]*\\)"))
    `((,(regexp-opt '("use" "let" "require" "if" "else" "for") 'symbols) . font-lock-keyword-face)
      (,(regexp-opt '("true" "false" "none") 'symbols) . font-lock-constant-face)
      ;; A field.
      (,(concat "\\_<" word "[ \t]*=\\(?:[^=>]\\|$\\)") 1 font-lock-variable-name-face)
      ;; The head of a block, and one without a body.
      (,(concat "\\_<" word "\\(?:[ \t]+" word "\\)?\\(?:[ \t]*:[ \t]*" word "\\)?\\(?:[ \t]+for[ \t]+" word "\\)?[ \t]*{")
       (1 font-lock-type-face) (2 font-lock-function-name-face nil t)
       (3 font-lock-function-name-face nil t) (4 font-lock-constant-face nil t))
      (,(concat "\\(?:^\\|[{,]\\)[ \t]*" word "[ \t]+" word "\\(?:[ \t]*:[ \t]*" word "\\)?[ \t]*\\(?:[,}]\\|//\\|$\\)")
       (1 font-lock-type-face) (2 font-lock-function-name-face) (3 font-lock-function-name-face nil t))
      (,(concat "\\_<" word "[ \t]*(") 1 font-lock-builtin-face)))
  "What the colours of `step-mode' are.")

(defun step-indent-line ()
  "Indent the line by the brackets around it."
  (interactive)
  (let ((column
         (save-excursion
           (back-to-indentation)
           (let* ((closers (skip-chars-forward "]})"))
                  (state (progn (back-to-indentation) (syntax-ppss))))
             (cond
              ((or (nth 3 state) (nth 4 state)) (current-indentation))
              ((zerop (car state)) (if (looking-at-p "else\\_>[ \t]*\"") step-indent 0))
              (t
               (let ((rest (looking-at-p "else\\_>[ \t]*\"")))
                 (goto-char (nth 1 state))
                 (+ (current-indentation)
                    (if (zerop closers) step-indent 0)
                    (if rest step-indent 0)))))))))
    (if (<= (current-column) (current-indentation))
        (indent-line-to column)
      (save-excursion (indent-line-to column)))))

;;;###autoload
(define-derived-mode step-mode prog-mode "Step"
  "Major mode for training recipes."
  (setq-local comment-start "// "
              comment-start-skip "\\(?://+\\|/\\*+\\)[ \t]*"
              indent-line-function #'step-indent-line
              indent-tabs-mode nil
              electric-indent-chars (append "}])" electric-indent-chars)
              font-lock-defaults '(step-font-lock-keywords)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.step\\'" . step-mode))

(defvar eglot-server-programs)
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs (cons 'step-mode (lambda (&rest _) step-server))))

(declare-function lsp-register-client "lsp-mode")
(declare-function make-lsp-client "lsp-mode")
(declare-function lsp-stdio-connection "lsp-mode")
(declare-function lsp-activate-on "lsp-mode")
(defvar lsp-language-id-configuration)
(with-eval-after-load 'lsp-mode
  (add-to-list 'lsp-language-id-configuration '(step-mode . "step"))
  (lsp-register-client
   (make-lsp-client :new-connection (lsp-stdio-connection (lambda () step-server))
                    :activation-fn (lsp-activate-on "step")
                    :server-id 'stepc)))

(provide 'step-mode)
;;; step-mode.el ends here

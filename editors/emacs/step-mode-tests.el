;;; step-mode-tests.el --- What step-mode does to a recipe -*- lexical-binding: t -*-

;; emacs -Q --batch -L editors/emacs -l step-mode-tests -f ert-run-tests-batch-and-exit

(require 'ert)
(require 'step-mode)

(defconst step-tests-root (expand-file-name "../.." (file-name-directory (or load-file-name buffer-file-name))))

(ert-deftest step-indents-every-recipe-as-the-formatter-does ()
  (dolist (file (directory-files-recursively (expand-file-name "recipes" step-tests-root) "\\.step\\'"))
    (with-temp-buffer
      (insert-file-contents file)
      (step-mode)
      (let ((text (buffer-string))
            (inhibit-message t))
        (goto-char (point-min))
        (while (not (eobp))
          (unless (or (looking-at-p "[ \t]*$") (nth 4 (syntax-ppss)))
            (delete-horizontal-space))
          (forward-line))
        (indent-region (point-min) (point-max))
        (should (equal (cons file (buffer-string)) (cons file text)))))))

(defun step-tests-face (text word)
  "The face of WORD in TEXT."
  (with-temp-buffer
    (insert text)
    (step-mode)
    (font-lock-ensure)
    (goto-char (point-min))
    (search-forward word)
    (get-text-property (match-beginning 0) 'face)))

(ert-deftest step-colours ()
  (should (eq (step-tests-face "a = 1 // note" "note") 'font-lock-comment-face))
  (should (eq (step-tests-face "a = 1 /* b\n c */" "c") 'font-lock-comment-face))
  (should (eq (step-tests-face "path = \"a//b\"" "b") 'font-lock-string-face))
  (should (eq (step-tests-face "  fsdp = 4" "fsdp") 'font-lock-variable-name-face))
  (should (eq (step-tests-face "profile laptop for cpu {" "profile") 'font-lock-type-face))
  (should (eq (step-tests-face "profile laptop for cpu {" "cpu") 'font-lock-constant-face))
  (should (eq (step-tests-face "  scaling none" "scaling") 'font-lock-type-face))
  (should (eq (step-tests-face "require a == b" "require") 'font-lock-keyword-face))
  (should-not (eq (step-tests-face "require a == b" "a") 'font-lock-variable-name-face)))

(declare-function eglot-ensure "eglot")
(declare-function eglot-managed-p "eglot")
(declare-function eglot-format-buffer "eglot")
(declare-function eglot-rename "eglot")
(declare-function flymake-start "flymake")
(declare-function flymake-diagnostics "flymake")
(declare-function flymake-diagnostic-text "flymake")

(defun step-tests-wait (done)
  "Wait until DONE gives something, which is returned."
  (with-timeout (120 (error "Nothing came"))
    (let (found)
      (while (not (setq found (funcall done)))
        (accept-process-output nil 0.05))
      found)))

(ert-deftest step-eglot-shows-mends-formats-and-renames ()
  "A session with the server that the variable STEPC of the environment names."
  (require 'package)
  (add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa")
  (package-initialize)
  (skip-unless (and (getenv "STEPC") (require 'eglot nil t)))
  (let* ((folder (make-temp-file "step" t))
         (file (expand-file-name "small.step" folder))
         (step-server (list (getenv "STEPC") "lsp"))
         (eglot-connect-timeout 120)
         (eglot-sync-connect 120))
    (make-directory (expand-file-name "data" folder))
    (dolist (name '("data/text.txt" "data/tokenizer.json"))
      (write-region "{}" nil (expand-file-name name folder) nil 'quiet))
    (copy-file (expand-file-name "docs/errors/small.step" step-tests-root) file)
    (with-current-buffer (find-file-noselect file)
      (should (eq major-mode 'step-mode))
      (apply #'eglot--connect (eglot--guess-contact))
      (step-tests-wait #'eglot-managed-p)
      (search-forward "global_batch = 8")
      (replace-match "global_bacth = 8")
      (eglot--signal-textDocument/didChange)
      (let ((problem (car (step-tests-wait (lambda () (flymake-start) (flymake-diagnostics))))))
        (should (string-match-p "global_bacth" (flymake-diagnostic-text problem))))
      (goto-char (point-min))
      (re-search-forward "global_bacth *= 8")
      (replace-match "let   long=8,global_batch=long")
      (eglot-format-buffer)
      (should (string-match-p "^    let long = 8, global_batch = long$" (buffer-string)))
      (goto-char (point-min))
      (search-forward "let lo")
      ;; A pause does this where somebody types.
      (eglot--signal-textDocument/didChange)
      (eglot-rename "how_long")
      (should (string-match-p "^    let how_long = 8, global_batch = how_long$" (buffer-string)))
      (set-buffer-modified-p nil))))

;;; step-mode-tests.el ends here
